"""Foreign software as judge and peer: Apache Kafka's broker and tools, kcat, kafkajs. Not part of the package."""
