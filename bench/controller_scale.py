"""What a controller costs as the cluster grows: CPU seconds of a take-over, and until all is led again after a death.

    python -m bench.controller_scale [--partitions 10000] [--brokers 10] [--json]

The store is the engine in memory, brokers answer at once; what is counted is the process's CPU time, the store's too.
"""

import argparse
import json
import logging
import time

from ottla.coordination import paths
from ottla.coordination.store import Create
from tests.controller.answering_cluster import Cluster

PER_TOPIC = 1_000


def fill(cluster: Cluster, *, partitions: int, brokers: int, replication_factor: int) -> None:
    """Topics as another broker writes them, with their states. All brokers register later, so whoever takes over elects
    every leader anew: it may have gone and come."""
    made = 0
    while made < partitions:
        count = min(PER_TOPIC, partitions - made)
        name = f"topic-{made}"
        assignment = {
            number: tuple((made + number + step) % brokers + 1 for step in range(replication_factor))
            for number in range(count)
        }
        topic_id = cluster.random.randbytes(16)
        writes = [
            Create(paths.config_path("topics", name), paths.encode_config({})),
            Create(paths.topic_path(name), paths.encode_topic(paths.TopicAssignment(topic_id, assignment))),
            Create(paths.topic_partitions_path(name), b""),
        ]
        for number, replicas in assignment.items():
            state = paths.PartitionState(replicas[0], 0, replicas, 1)
            writes.append(Create(paths.partition_path(name, number), b""))
            writes.append(Create(paths.partition_state_path(name, number), paths.encode_partition_state(state)))
        assert cluster.call(cluster.admin.multi, writes).is_ok
        made += count


def measure(*, partitions: int, brokers: int) -> tuple[float, float]:
    """CPU seconds of the take-over and of the fail-over."""
    cluster = Cluster(0)
    for broker_id in range(1, brokers + 1):
        cluster.add(broker_id)
    fill(cluster, partitions=partitions, brokers=brokers, replication_factor=3)
    started = time.process_time()
    for broker_id in range(1, brokers + 1):
        cluster.start(broker_id)
    cluster.loop.run_until(lambda: all(len(broker.shown) for broker in cluster.brokers.values()))
    taken_over = time.process_time()
    victim = next(broker_id for broker_id in cluster.brokers if broker_id != cluster.active[0])
    cluster.kill(victim)
    others = [broker for broker in cluster.brokers.values() if broker.broker_id != victim]

    def is_led_again() -> bool:
        return all(len(broker.brokers) == brokers - 1 for broker in others) and not any(
            state.leader == victim or victim in state.isr for broker in others for state in broker.states.values()
        )

    while not is_led_again():
        cluster.settle(0.05)
        assert time.process_time() - taken_over < 120
    return taken_over - started, time.process_time() - taken_over


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--brokers", type=int, default=10)
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    options = parser.parse_args()
    # A line for each partition that is without a leader for a moment: what a terminal costs is not what is asked.
    logging.getLogger("ottla").setLevel(logging.ERROR)
    take_over_s, fail_over_s = measure(partitions=options.partitions, brokers=options.brokers)
    if options.json:
        figures = {"take_over_s": take_over_s, "fail_over_s": fail_over_s}
        print(json.dumps({"brokers": options.brokers, "partitions": options.partitions, **figures}))
        return
    print(f"{options.partitions} partitions x 3 on {options.brokers} brokers")
    print(f"take-over {take_over_s:.2f} s of CPU, all led again after a death {fail_over_s:.2f} s of CPU")


if __name__ == "__main__":
    main()
