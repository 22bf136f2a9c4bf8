"""What a running process costs, read from /proc: resident memory and CPU time. Reads only; starts and stops nothing."""

import os
from pathlib import Path

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def resident_bytes(pid: int) -> int:
    """Resident memory of one process, as the kernel counts it (VmRSS)."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise ProcessLookupError(f"process {pid} has no resident memory: it has ended")


def cpu_seconds(pid: int) -> float:
    """CPU time of all threads of one process since its start, user and system."""
    # The command name may hold spaces and brackets, so the fields are counted after its closing bracket.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_SECOND
