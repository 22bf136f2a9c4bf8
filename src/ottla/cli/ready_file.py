"""The ready file of `ottla serve`: host:port, there while clients can connect and at no other time.

One that a killed broker has left is removed before the next one does anything: whoever waits for it would believe it.
"""

import os

import click


class ReadyFile:
    """`clear` first of all, `write` when clients can connect, `clear` when they can't any more."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._unfinished = path + ".tmp"

    def clear(self) -> None:
        for path in (self._path, self._unfinished):
            try:
                os.unlink(path)
            except FileNotFoundError:
                pass
            except OSError as error:
                raise click.ClickException(f"ready file {self._path}: {error.strerror}") from error

    def check(self) -> None:
        """That it can be written: said now, and not by a broker that is up already."""
        try:
            os.close(os.open(self._unfinished, os.O_WRONLY | os.O_CREAT, 0o644))
        except OSError as error:
            raise click.ClickException(f"ready file {self._path} can't be written: {error.strerror}") from error

    def write(self, address: str) -> None:
        """Under its name only when complete: whoever waits for the file never reads half an address."""
        with open(self._unfinished, "w", encoding="utf-8") as file:
            file.write(address + "\n")
        os.replace(self._unfinished, self._path)
