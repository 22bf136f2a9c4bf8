"""What every room may use: ids, error codes, ports, the timing wheel, config definitions."""
