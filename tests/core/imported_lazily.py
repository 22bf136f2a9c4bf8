"""Imported by test_lazy_module.py alone."""

ANSWER = 42


def answer() -> int:
    return ANSWER
