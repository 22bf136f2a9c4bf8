"""The consumer: a core without I/O, one file per decision; the blocking and the asyncio consumer use it."""
