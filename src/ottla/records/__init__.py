"""Record batches (format v2): header view, build, read, validate, compress. Knows bytes only."""
