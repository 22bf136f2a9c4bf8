"""The store on Apache Cassandra: Spark's executors write rows, and only the keys identify them."""
