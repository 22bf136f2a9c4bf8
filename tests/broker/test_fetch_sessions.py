"""Fetch sessions (KIP-227): what the broker remembers for a client."""

from itertools import count

import pytest

from ottla.broker.fetch_sessions import FetchSession, FetchSessions, SessionFault
from ottla.core.errors import ErrorCode
from ottla.protocol.fetch_codec import FetchedPartition, FetchPartition

EPOCH_MAX = 2**31 - 1


def sessions(slots: int = 3, *, partitions_max: int = 100) -> FetchSessions:
    ids = count(1)
    return FetchSessions(slots=slots, partitions_max=partitions_max, new_id=lambda: next(ids))


def created(
    cache: FetchSessions, now_ms: int = 0, *, partitions: int = 1, uses_topic_ids: bool = False
) -> FetchSession:
    session = cache.create(many(partitions), uses_topic_ids=uses_topic_ids, now_ms=now_ms)
    assert session is not None
    return session


def wanted(index: int, offset: int = 0) -> tuple[str, FetchPartition]:
    return "orders", FetchPartition(index, -1, offset, -1, -1, 1000)


def many(partitions: int) -> list[tuple[str, FetchPartition]]:
    return [wanted(index) for index in range(partitions)]


def told(index: int, *, high_watermark: int = 5, log_start: int = 0, error_code: int = 0) -> FetchedPartition:
    return FetchedPartition(index, error_code, high_watermark, log_start_offset=log_start)


def resume(cache: FetchSessions, session_id: int, epoch: int, **options: object) -> FetchSession | SessionFault:
    settings: dict[str, object] = {"uses_topic_ids": False, "now_ms": 0, **options}
    return cache.resume(session_id, epoch=epoch, **settings)  # type: ignore[arg-type]


def test_new_session_goes_on_with_epoch_one() -> None:
    cache = sessions()
    session = created(cache)
    assert resume(cache, session.session_id, 1) is session
    assert resume(cache, session.session_id, 2) is session


def test_ids_are_never_zero_and_never_given_twice() -> None:
    drawn = iter([0, 7, 7, 0, 8])
    cache = FetchSessions(slots=5, partitions_max=100, new_id=lambda: next(drawn))
    assert [created(cache).session_id, created(cache).session_id] == [7, 8]


def test_unknown_session_is_error_70() -> None:
    assert resume(sessions(), 9, 1) == SessionFault(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)


@pytest.mark.parametrize("epoch", [2, 5, EPOCH_MAX, -7])
def test_other_epoch_than_the_next_is_error_71_and_changes_nothing(epoch: int) -> None:
    cache = sessions()
    session = created(cache)
    assert resume(cache, session.session_id, epoch) == SessionFault(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
    assert resume(cache, session.session_id, 1) is session


def test_change_between_names_and_ids_is_error_106() -> None:
    cache = sessions()
    session = created(cache, uses_topic_ids=True)
    assert resume(cache, session.session_id, 1) == SessionFault(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
    assert resume(cache, session.session_id, 1, uses_topic_ids=True) is session


def test_epoch_wraps_to_one() -> None:
    cache = sessions()
    session = created(cache)
    session.epoch = EPOCH_MAX
    assert resume(cache, session.session_id, EPOCH_MAX) is session
    assert session.epoch == 1


def test_closed_session_is_gone() -> None:
    cache = sessions()
    session = created(cache)
    cache.close(session.session_id)
    cache.close(session.session_id)
    assert len(cache) == 0
    assert isinstance(resume(cache, session.session_id, 1), SessionFault)


def test_full_cache_gives_no_session_while_all_are_in_use() -> None:
    cache = sessions(slots=2)
    created(cache, 0)
    created(cache, 0)
    assert cache.create(many(1), uses_topic_ids=False, now_ms=119_999) is None


def test_session_that_was_idle_longest_makes_room() -> None:
    cache = sessions(slots=2)
    first, second = created(cache, 0), created(cache, 10)
    resume(cache, first.session_id, 1, now_ms=20)
    created(cache, 120_010)
    assert len(cache) == 2
    assert isinstance(resume(cache, second.session_id, 1), SessionFault)
    assert resume(cache, first.session_id, 2, now_ms=120_011) is first


def test_no_slots_at_all_means_no_sessions() -> None:
    assert sessions(slots=0).create(many(1), uses_topic_ids=False, now_ms=0) is None


def test_larger_session_gets_the_slot_of_a_smaller_one_that_had_it_for_long() -> None:
    cache = sessions(slots=2)
    small, large = created(cache, 0, partitions=2), created(cache, 0, partitions=5)
    for session in (small, large):
        resume(cache, session.session_id, 1, now_ms=119_999)
    assert cache.create(many(4), uses_topic_ids=False, now_ms=119_999) is None, "they are too new to be judged by size"
    assert cache.create(many(2), uses_topic_ids=False, now_ms=120_000) is None, "it would save no more"
    created(cache, 120_000, partitions=4)
    assert (small.session_id, len(cache), cache.evictions) == (0, 2, 1)
    assert resume(cache, large.session_id, 2) is large


def test_no_session_holds_more_partitions_than_all_may_together() -> None:
    cache = sessions(partitions_max=10)
    in_use = created(cache, 0, partitions=4)
    assert cache.create(many(11), uses_topic_ids=False, now_ms=500_000) is None
    assert len(cache) == 1, "nobody had to go for what never fits"
    assert cache.create(many(7), uses_topic_ids=False, now_ms=119_999) is None
    created(cache, 119_999, partitions=6)
    assert cache.cached_partitions == 10
    created(cache, 120_000, partitions=3)
    assert (in_use.session_id, cache.cached_partitions) == (0, 9), "unused for long, it made room"


def test_session_that_grows_beyond_the_room_for_partitions_is_closed() -> None:
    cache = sessions(partitions_max=10)
    other, grown = created(cache, 0, partitions=4), created(cache, 0, partitions=4)
    grown.update(many(6), ())
    cache.on_updated(grown, now_ms=0)
    assert cache.cached_partitions == 10
    grown.update(many(7), ())
    cache.on_updated(grown, now_ms=0)
    assert (grown.session_id, len(cache), cache.cached_partitions) == (0, 1, 4)
    assert resume(cache, other.session_id, 1) is other


def test_partitions_that_are_forgotten_leave_their_room() -> None:
    cache = sessions(partitions_max=10)
    session = created(cache, 0, partitions=10)
    session.update((), [("orders", index) for index in range(4)])
    cache.on_updated(session, now_ms=0)
    assert cache.cached_partitions == 6
    cache.close(session.session_id)
    assert cache.cached_partitions == 0


def test_session_remembers_adds_changes_and_forgets() -> None:
    session = FetchSession(1, uses_topic_ids=False)
    session.update([wanted(0), wanted(1)], ())
    session.update([wanted(1, 50), wanted(2)], [("orders", 0), ("orders", 9)])
    assert session.wanted() == [wanted(1, 50), wanted(2)]


def test_partition_has_news_by_records_error_high_watermark_or_log_start() -> None:
    session = FetchSession(1, uses_topic_ids=False)
    session.update([wanted(0)], ())
    assert session.has_news("orders", told(0), records_bytes=0), "it was never told"
    session.remember("orders", told(0), records_bytes=0)
    assert not session.has_news("orders", told(0), records_bytes=0)
    assert session.has_news("orders", told(0), records_bytes=1)
    assert session.has_news("orders", told(0, error_code=1), records_bytes=0)
    assert session.has_news("orders", told(0, high_watermark=6), records_bytes=0)
    assert session.has_news("orders", told(0, log_start=1), records_bytes=0)


def test_changed_offset_alone_is_no_news() -> None:
    session = FetchSession(1, uses_topic_ids=False)
    session.update([wanted(0)], ())
    session.remember("orders", told(0), records_bytes=10)
    session.update([wanted(0, 5)], ())
    assert not session.has_news("orders", told(0), records_bytes=0)


def test_end_of_an_error_is_news() -> None:
    session = FetchSession(1, uses_topic_ids=False)
    session.update([wanted(0)], ())
    session.remember("orders", told(0), records_bytes=0)
    session.remember("orders", told(0, error_code=6), records_bytes=0)
    assert session.has_news("orders", told(0), records_bytes=0)


def test_partition_that_was_forgotten_while_it_was_read_is_left_alone() -> None:
    session = FetchSession(1, uses_topic_ids=False)
    assert session.has_news("orders", told(0), records_bytes=0)
    session.remember("orders", told(0), records_bytes=5)
    assert session.wanted() == []


def test_partition_that_gave_records_goes_behind_the_others() -> None:
    session = FetchSession(1, uses_topic_ids=False)
    session.update([wanted(0), wanted(1), wanted(2)], ())
    session.remember("orders", told(0), records_bytes=10)
    session.remember("orders", told(1), records_bytes=0)
    assert session.wanted() == [wanted(1), wanted(2), wanted(0)]
