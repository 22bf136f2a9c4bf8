"""One broker: its core on ports, which wires the rooms, what a process puts behind them, and a handler for each API."""
