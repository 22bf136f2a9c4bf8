"""The producer: takes records from any thread, sends batches to partition leaders, reports an outcome per record."""
