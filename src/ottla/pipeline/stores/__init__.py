"""Where the pipeline's tables live: one port, one conformance suite, an embedded store and Cassandra."""
