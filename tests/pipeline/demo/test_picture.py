"""The picture of a run: the view at the moment that was asked for, and nothing that must be loaded from elsewhere."""

import re

import pytest

from tools.picture_of_run import frame_at, frames, run_on_terminal, svg

WRITTEN = (
    "broker   listening\r\n\x1b[?1049h\x1b[H\x1b[?25l"
    "\x1b[H\x1b[2Kevent time \x1b[32m━━\x1b[0m\x1b[2m──\x1b[0m sending, 9 s left\r\n\x1b[2K\x1b[36malerts\x1b[0m"
    "\x1b[H\x1b[2Kevent time \x1b[32m━━━\x1b[0m\x1b[2m─\x1b[0m sending, 4 s left\r\n\x1b[2K\x1b[36malerts\x1b[0m  <&>"
    "\x1b[H\x1b[2Kevent time \x1b[32m━━━━\x1b[0m all sent\r\n\x1b[2K\x1b[?25h\x1b[?1049lPASSED\r\n"
)


def test_the_frame_is_the_first_with_the_share_that_was_asked_for() -> None:
    frame = frame_at(frames(WRITTEN), 0.7)
    assert frame is not None
    assert "4 s left" in frame[0]
    assert frame_at(frames(WRITTEN), 0.9) is None


def test_the_picture_refers_to_nothing_outside_of_it() -> None:
    frame = frame_at(frames(WRITTEN), 0.7)
    assert frame is not None
    picture = svg(frame, columns=60)
    assert not re.search(r"url\((?!#)|@font-face|@import|href", picture)
    assert [address for address in re.findall(r"https?://[^\"' ]+", picture) if "www.w3.org" not in address] == []
    assert "sending,&#160;4&#160;s&#160;left" in picture
    assert "&lt;&amp;&gt;" in picture
    assert "\x1b" not in picture


@pytest.mark.process
def test_a_program_sees_a_terminal_of_the_size_that_was_asked_for() -> None:
    written, exit_code = run_on_terminal(["sh", "-c", "stty size; exit 3"], columns=60, rows=24)
    assert (written.split(), exit_code) == (["24", "60"], 3)
