"""What becomes of a request to elect a leader."""

import pytest

from ottla.controller.leader_elections import ElectionType, decide_election
from ottla.core.cluster import PartitionState, TopicImage
from ottla.core.errors import ErrorCode

NOT_NEEDED = ErrorCode.ELECTION_NOT_NEEDED
NO_PREFERRED = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
NO_ELIGIBLE = ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE


def image(*, leader: int, replicas: tuple[int, ...] = (1,)) -> TopicImage:
    return TopicImage("orders", bytes(16), {}, {0: PartitionState(leader, 4, replicas, replicas)})


@pytest.mark.parametrize(
    ("leader", "replicas", "able", "preferred", "unclean"),
    [
        (1, (1,), [1], NOT_NEEDED, NOT_NEEDED),
        (2, (1, 2), [2], NO_PREFERRED, NOT_NEEDED),
        (1, (1,), [], NO_PREFERRED, NO_ELIGIBLE),
        (1, (1,), [7], NO_PREFERRED, NO_ELIGIBLE),
        (-1, (1,), [], NO_PREFERRED, NO_ELIGIBLE),
        (-1, (), [1], NO_PREFERRED, NO_ELIGIBLE),
    ],
)
def test_election_goes_by_who_leads_and_who_is_able(
    leader: int, replicas: tuple[int, ...], able: list[int], preferred: ErrorCode, unclean: ErrorCode
) -> None:
    topic = image(leader=leader, replicas=replicas)
    for election_type, expected in [(ElectionType.PREFERRED, preferred), (ElectionType.UNCLEAN, unclean)]:
        fault = decide_election(topic, "orders", 0, election_type, able=able)
        assert fault.error_code == expected
        assert "orders-0" in fault.message


@pytest.mark.parametrize("election_type", ElectionType)
def test_what_does_not_exist_has_no_election(election_type: ElectionType) -> None:
    for topic, name, index in [(None, "none", 0), (image(leader=1), "orders", 1), (image(leader=1), "orders", -1)]:
        fault = decide_election(topic, name, index, election_type, able=[1])
        assert fault.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert name in fault.message
