"""Administration of three simulated brokers: configs at any of them, elections, a directory that fails, their stop."""

from collections.abc import Callable
from typing import Any

from ottla.core.cluster import OFFSETS_TOPIC, PartitionState
from ottla.core.control import ControlAnswer, ControlStamp
from ottla.core.errors import ErrorCode
from ottla.core.types import BrokerId, TopicPartition
from ottla.protocol.message import ApiMessage
from ottla.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.testing.simulation.cluster import SimulatedCluster
from ottla.testing.simulation.requests import create_topic
from tests.broker.control_values import leader_and_isr

TOPIC, BROKER = 2, 4
PREFERRED = 0


class Three:
    """Brokers 1 to 3 with `orders`, three partitions on all of them."""

    def __init__(self, seed: int = 1, **properties: str) -> None:
        named = {key.replace("_", "."): value for key, value in properties.items()}
        self.cluster = SimulatedCluster(seed, properties={"auto.leader.rebalance.enable": "false", **named})
        self.cluster.start()
        self.client = self.cluster.client("client-1")
        outcome = create_topic(self.client, self.controller, "orders", partitions=3, replication_factor=3)
        self.until(lambda: outcome.is_there)
        assert outcome.response.topics[0].error_code == ErrorCode.NONE
        self.until(lambda: all(len(core.cache.topics.get("orders", "")) for core in self.cores))

    @property
    def cores(self) -> list[Any]:
        return [broker.core for broker in self.cluster.brokers.values() if broker.is_serving]

    @property
    def controller(self) -> BrokerId:
        (found,) = [core.broker_id for core in self.cores if core.controller.is_active]
        return int(found)

    @property
    def others(self) -> list[BrokerId]:
        return [broker_id for broker_id in self.cluster.brokers if broker_id != self.controller]

    def until(self, condition: Callable[[], bool], within_s: float = 30) -> None:
        self.cluster.run_until(condition, within_s=within_s)

    def ask(self, broker_id: BrokerId, request: ApiMessage) -> Any:
        outcome = self.client.request(broker_id, request)
        self.until(lambda: outcome.is_there)
        assert outcome.error is None
        return outcome.response

    def alter(self, broker_id: BrokerId, resource_type: int, name: str, key: str, value: str) -> ErrorCode:
        config = AlterableConfig(name=key, config_operation=0, value=value)
        resource = AlterConfigsResource(resource_type=resource_type, resource_name=name, configs=[config])
        response = self.ask(broker_id, IncrementalAlterConfigsRequest(resources=[resource]))
        return ErrorCode(response.responses[0].error_code)

    def describe(self, broker_id: BrokerId, resource_type: int, name: str, key: str) -> str | None:
        resource = DescribeConfigsResource(resource_type=resource_type, resource_name=name, configuration_keys=[key])
        (result,) = self.ask(broker_id, DescribeConfigsRequest(resources=[resource])).results
        assert result.error_code == 0
        return result.configs[0].value if result.configs else None

    def state_of(self, topic_partition: TopicPartition) -> PartitionState:
        (core,) = [core for core in self.cores if core.controller.is_active]
        state: PartitionState = core.topics.state.partition(topic_partition)
        return state


def test_configs_of_a_topic_are_altered_and_described_at_any_broker() -> None:
    three = Three()
    for retention_ms, broker_id in enumerate((*three.others, three.controller), start=1000):
        assert three.alter(broker_id, TOPIC, "orders", "retention.ms", str(retention_ms)) == ErrorCode.NONE
        three.cluster.run_for(1)
        for core in three.cores:
            assert three.describe(core.broker_id, TOPIC, "orders", "retention.ms") == str(retention_ms)
            assert {log.config.retention_ms for log in core.log_manager.logs()} == {retention_ms}
            if core.controller.is_active:
                assert core.topics.state.topics["orders"].configs == {"retention.ms": str(retention_ms)}
    assert three.alter(three.others[0], TOPIC, "none", "retention.ms", "1") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert three.alter(three.others[0], TOPIC, "orders", "retention.ms", "x") == ErrorCode.INVALID_CONFIG


def test_configs_of_brokers_are_altered_at_any_broker() -> None:
    three = Three()
    for number, broker_id in enumerate((*three.others, three.controller), start=1000):
        assert three.alter(broker_id, BROKER, "", "log.retention.ms", str(number)) == ErrorCode.NONE
        assert three.alter(broker_id, BROKER, str(broker_id), "max.connections", str(number)) == ErrorCode.NONE
        three.cluster.run_for(1)
        for core in three.cores:
            assert three.describe(core.broker_id, BROKER, "", "log.retention.ms") == str(number)
            assert core.current_config.value.get_int("log.retention.ms") == number
        mine = three.cluster.brokers[broker_id].core
        assert mine is not None
        assert mine.current_config.value.get_int("max.connections") == number


def test_preferred_leader_that_came_back_is_elected_on_request() -> None:
    three = Three()
    partition = next(
        number for number in range(3) if three.state_of(TopicPartition("orders", number)).leader != three.controller
    )
    topic_partition = TopicPartition("orders", partition)
    preferred = three.state_of(topic_partition).leader
    three.cluster.brokers[preferred].kill()
    three.until(lambda: three.state_of(topic_partition).leader not in (-1, preferred))
    three.cluster.brokers[preferred].start()
    three.until(lambda: preferred in three.state_of(topic_partition).isr)
    named = [TopicPartitions(topic="orders", partitions=[partition, 7])]
    request = ElectLeadersRequest(election_type=PREFERRED, topic_partitions=named, timeout_ms=10_000)
    refused = three.ask(next(one for one in three.others if one != preferred), request)
    assert refused.error_code == ErrorCode.NOT_CONTROLLER
    (result,) = three.ask(three.controller, request).replica_election_results
    assert [(one.partition_id, one.error_code) for one in result.partition_result] == [
        (partition, ErrorCode.NONE),
        (7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert three.state_of(topic_partition).leader == preferred
    everything = three.ask(three.controller, ElectLeadersRequest(election_type=PREFERRED, topic_partitions=None))
    assert all(not topic.partition_result for topic in everything.replica_election_results)


def test_offsets_topic_is_made_when_enough_brokers_live() -> None:
    three = Three(offsets_topic_replication_factor="3", offsets_topic_num_partitions="1")
    third = three.others[0]
    three.cluster.brokers[third].stop()
    three.until(lambda: not three.cluster.brokers[third].is_up)
    three.cluster.run_for(1)
    request = FindCoordinatorRequest(key="readers", coordinator_keys=["readers"])
    for broker_id in (three.controller, next(one for one in three.others if one != third)):
        (found,) = three.ask(broker_id, request).coordinators
        assert found.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert all(OFFSETS_TOPIC not in core.cache.topics for core in three.cores)
    three.cluster.brokers[third].start()
    three.until(three.cluster.all_serve)

    def is_found() -> bool:
        return three.ask(three.controller, request).coordinators[0].error_code == ErrorCode.NONE

    assert is_found() or is_found()
    assert len(three.state_of(TopicPartition(OFFSETS_TOPIC, 0)).replicas) == 3


def test_partitions_of_a_failed_directory_are_led_elsewhere() -> None:
    three = Three(log_dirs="/a,/b")
    leader = three.state_of(TopicPartition("orders", 0)).leader
    core = three.cluster.brokers[leader].core
    assert core is not None
    failed = _directory_of(core, TopicPartition("orders", 0))
    lost = [one for one in core.log_manager.partitions() if _directory_of(core, one) == failed]
    core.log_manager.fail_dir(failed, "broken")
    three.until(lambda: all(three.state_of(one).leader not in (-1, leader) for one in lost), within_s=10)
    assert all(leader not in three.state_of(one).isr for one in lost)
    kept = [TopicPartition("orders", number) for number in range(3) if TopicPartition("orders", number) not in lost]
    assert all(leader in three.state_of(one).isr for one in kept)
    assert core.fatal_reason is None
    states = {one.partition: three.state_of(one) for one in (*lost, *kept)}
    answers: list[ControlAnswer] = []
    fence = core.local_topics.fence
    stamp = ControlStamp(three.controller, fence.controller_epoch, core.registration.epoch, number=2**31)
    topic_id = core.cache.topics["orders"].topic_id
    core.local_topics.handle(leader_and_isr(states, topic_id=topic_id, is_new=False, by=stamp), answers.append)
    assert answers == [ControlAnswer(ErrorCode.NONE, dict.fromkeys(lost, ErrorCode.KAFKA_STORAGE_ERROR))]


def _directory_of(core: Any, topic_partition: TopicPartition) -> str:
    path: str = core.log_manager.get(topic_partition).directory
    return "/" + path.split("/")[1]


def test_brokers_that_stop_one_after_the_other_wait_for_nothing() -> None:
    for seed in range(5):
        three = Three(seed)
        began = three.cluster.now
        for broker in three.cluster.brokers.values():
            broker.stop()
            three.until(lambda broker=broker: not broker.is_up)  # type: ignore[misc]
        assert three.cluster.now - began < 2


def test_brokers_that_stop_together_wait_for_nothing() -> None:
    for seed in range(5):
        three = Three(seed)
        began = three.cluster.now
        three.cluster.stop()
        assert three.cluster.now - began < 3
