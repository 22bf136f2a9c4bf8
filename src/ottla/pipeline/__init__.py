"""The data pipeline: generated traffic of the app, and the jobs over it."""
