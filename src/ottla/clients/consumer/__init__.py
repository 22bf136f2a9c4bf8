"""The consumer: a core without I/O in one file per decision, a blocking face and an asyncio face over it."""
