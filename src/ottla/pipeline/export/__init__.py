"""Topics as Parquet files for offline work: the files, and the progress of an export."""
