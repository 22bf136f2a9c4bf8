"""The simple commands of a piece of shell, as words: enough of the shell's grammar for what pages show."""

import re
import shlex
from collections.abc import Iterator

_OPERATORS = set("();<>|&")
_GUARD = 0xF0000  # into a plane of Unicode that no page uses
_KEYWORDS = {"do", "then", "else", "while", "until", "if", "!", "$"}


def simple_commands(text: str) -> Iterator[list[str]]:
    """Without pipes, redirections, comments, assignments before a command, and `$` prompts."""
    text = _without_documents(text).replace("\\\n", " ")
    while substitution := re.search(r"\$\(\([^()]*\)\)|\$\(([^()]*)\)", text):  # from the inside out
        if substitution[1]:
            yield from simple_commands(substitution[1])
        text = text.replace(substitution[0], "SUBSTITUTED")
    for line in text.splitlines():
        yield from _of_line(_guarded(line))


def _of_line(line: str) -> Iterator[list[str]]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    words: list[str] = []
    is_target = False  # the next word is where a redirection leads
    for token in [*lexer, ";"]:
        if not set(token) <= _OPERATORS:
            if not is_target:
                words.append(_unguarded(token))
            is_target = False
        elif "<" in token or ">" in token:
            is_target = True
            if words and words[-1] in ("1", "2"):
                words.pop()
        else:
            if command := _command(words):
                yield command
            words = []


def _command(words: list[str]) -> list[str]:
    while words and (words[0] in _KEYWORDS or re.fullmatch(r"[A-Za-z_]\w*=.*", words[0])):
        words = words[1:]
    return words


def _guarded(line: str) -> str:
    """Without its comment, which begins at the start of a word; operators in quotes no longer look like operators."""
    quote = ""
    guarded = ""
    for position, character in enumerate(line):
        if quote:
            quote = "" if character == quote else quote
            guarded += chr(_GUARD + ord(character)) if character in _OPERATORS else character
            continue
        if character == "#" and (position == 0 or line[position - 1].isspace()):
            break
        if character in "'\"":
            quote = character
        guarded += character
    return guarded


def _unguarded(token: str) -> str:
    return "".join(chr(ord(character) - _GUARD) if ord(character) >= _GUARD else character for character in token)


def _without_documents(text: str) -> str:
    """Here-documents are input of a command, not commands."""
    return re.sub(r"<<-?\s*'?(\w+)'?([^\n]*)\n.*?^\1$", r"\2", text, flags=re.DOTALL | re.MULTILINE)
