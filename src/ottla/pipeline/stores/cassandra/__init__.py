"""The store on Apache Cassandra: rows are written by Spark's executors, and told apart by their keys alone."""
