"""`python -m bench.clients.worker <client> <task> <job>`: does one job with one client and prints the outcome."""

import sys
from importlib import import_module
from pathlib import Path

from bench.clients.job import Job, Task

_MODULES = {
    "ottla": "ottla_client",
    "confluent-kafka": "confluent_client",
    "aiokafka": "aiokafka_client",
    "kafka-python": "kafka_python_client",
}


def main() -> None:
    client, task_name, job_text = sys.argv[1:]
    module = import_module(f"bench.clients.{_MODULES[client]}")
    task: Task = getattr(module, task_name.replace("-", "_"))
    outcome = task(Job.from_text(job_text))
    memory = _memory_bytes()
    print(outcome._replace(peak_bytes=memory["VmHWM"], file_bytes=memory["RssFile"]).to_text(), flush=True)


def _memory_bytes() -> dict[str, int]:
    figures = {}
    for line in Path("/proc/self/status").read_text().splitlines():
        name, _, rest = line.partition(":")
        if name in ("VmHWM", "RssFile"):
            figures[name] = int(rest.split()[0]) * 1024
    return figures


if __name__ == "__main__":
    main()
