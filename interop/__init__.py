"""Foreign software as judge and peer: Apache Kafka's broker and tools, kcat, kafkajs, franz-go, kafka-python's tests.

Not part of the package.
"""
