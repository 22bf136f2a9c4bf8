"""What a client may do, as bit masks by Kafka's numbers of operations."""

# With no authorizer everybody may do all that a topic, a group or a cluster knows.
ALL_TOPIC_OPERATIONS = sum(1 << bit for bit in (3, 4, 5, 6, 7, 8, 10, 11))
ALL_GROUP_OPERATIONS = sum(1 << bit for bit in (3, 6, 8, 10, 11))
ALL_CLUSTER_OPERATIONS = sum(1 << bit for bit in (5, 7, 8, 9, 10, 11, 12))
