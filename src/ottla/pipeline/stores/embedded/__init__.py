"""The store that needs no server: log tables as Parquet files, everything else in one SQLite file."""
