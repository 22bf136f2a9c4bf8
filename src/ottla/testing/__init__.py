"""Simulated ports for tests."""
