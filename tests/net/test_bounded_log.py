"""The log of the network under a flood."""

import pytest

from ottla.net.bounded_log import BoundedLog


def test_a_bug_is_told_among_any_number_of_bad_peers(caplog: pytest.LogCaptureFixture) -> None:
    log = BoundedLog()
    with caplog.at_level("INFO", "ottla.net"):
        for number in range(1000):
            log.info("bad peer %d", number)
        for _ in range(1000):
            log.bug(ZeroDivisionError("the bug"), "a handler failed")
        log.start_interval()
    assert 0 < caplog.text.count("bad peer") < 100
    assert 0 < caplog.text.count("a handler failed") < 100
    assert "the bug" in caplog.text
    assert "980 more lines" in caplog.text
    assert "995 more failures" in caplog.text
