"""What is remembered of requests: by version and bytes, and never more than there is room for."""

from ottla.broker.request_memo import RequestMemo


def new_memo(entries_max: int = 5) -> RequestMemo[str]:
    return RequestMemo(versions=3, key_bytes_max=8, entries_max=entries_max)


def test_entry_is_found_by_its_bytes() -> None:
    memo = new_memo()
    assert memo.learn(1, b"head", "entry")
    assert memo.by_version[1].get(b"head") == "entry"
    assert memo.by_version[1].get(b"other") is None


def test_same_bytes_in_another_version_are_another_request() -> None:
    memo = new_memo()
    memo.learn(0, b"head", "zero")
    memo.learn(2, b"head", "two")
    assert [entries.get(b"head") for entries in memo.by_version] == ["zero", None, "two"]


def test_newer_entry_takes_the_place_of_an_older_one() -> None:
    memo = new_memo()
    memo.learn(0, b"head", "old")
    memo.learn(0, b"head", "new")
    assert (memo.by_version[0][b"head"], memo.count) == ("new", 1)


def test_key_that_is_too_long_is_not_remembered() -> None:
    memo = new_memo()
    assert memo.learn(0, b"12345678", "fits")
    assert not memo.learn(0, b"123456789", "does not")
    assert memo.count == 1


def test_forgotten_entry_is_let_go_and_the_others_stay() -> None:
    memo = new_memo()
    memo.learn(0, b"a", "a")
    memo.learn(0, b"b", "b")
    memo.forget(0, b"a")
    memo.forget(1, b"b")  # of another version: not there
    assert memo.by_version[0] == {b"b": "b"}


def test_full_memo_starts_again_with_the_newest_entry() -> None:
    memo = new_memo(entries_max=5)
    for number in range(5):
        memo.learn(number % 3, b"%d" % number, "entry")
    assert memo.count == 5
    memo.learn(0, b"0", "again")  # it has its place already
    assert memo.count == 5
    kept = memo.by_version[1]
    memo.learn(1, b"new", "entry")
    assert memo.count == 1
    assert memo.by_version[1] is kept, "whoever holds on to it sees the change"


def test_memo_never_holds_more_than_its_limit() -> None:
    memo = new_memo(entries_max=7)
    for number in range(100):
        memo.learn(number % 3, b"%d" % number, "entry")
        assert memo.count <= 7
