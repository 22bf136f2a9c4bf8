"""The producer: records in from any thread, batches out to the leaders of partitions, an outcome for each record."""
