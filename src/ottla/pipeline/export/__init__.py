"""Topics as Parquet files for offline work: what is written, and how far it has come."""
