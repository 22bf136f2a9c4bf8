"""Tests of the benchmarks: not of their figures, but of what they leave behind."""
