"""What a terminal can show, from its file and its environment."""

from io import BytesIO, StringIO, TextIOWrapper

from rich.console import Console

from ottla.pipeline.screen.terminal import ASCII, UNICODE, can_redraw, glyphs_of, printable, size_of


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def in_encoding(encoding: str, **environ: str) -> Console:
    return Console(file=TextIOWrapper(BytesIO(), encoding=encoding), _environ=environ)


def test_only_a_named_terminal_that_is_not_dumb_is_redrawn() -> None:
    for environ, expected in (({"TERM": "xterm"}, True), ({"TERM": "dumb"}, False), ({}, False)):
        assert can_redraw(Console(file=Terminal(), _environ=environ)) is expected
    assert not can_redraw(Console(file=StringIO(), _environ={"TERM": "xterm", "FORCE_COLOR": "1"}))


def test_characters_follow_encoding_and_locale() -> None:
    assert glyphs_of(in_encoding("utf-8")) == UNICODE
    assert glyphs_of(in_encoding("utf-8", LANG="de_DE.UTF-8")) == UNICODE
    assert glyphs_of(in_encoding("utf-8", LC_ALL="C", LANG="de_DE.UTF-8")) == ASCII
    assert glyphs_of(in_encoding("utf-8", LC_CTYPE="C.UTF-8", LANG="C")) == ASCII
    assert glyphs_of(in_encoding("iso8859-1", LANG="de_DE.ISO-8859-1")) == ASCII


def test_text_is_as_long_as_it_is_shown_and_can_not_steer_the_terminal() -> None:
    assert printable(in_encoding("ascii"), "±20") == r"\xb120"
    assert printable(in_encoding("utf-8"), "±20 é\x1b[2J\n") == "±20 é?[2J?"


def test_a_size_is_never_too_small_to_draw() -> None:
    assert size_of(Console(file=StringIO(), width=1, height=1, _environ={})) == (20, 5)
