"""One flush of a log: what has to be fsynced so that everything below an offset survives a loss of power.

Made by the log on the event loop, run on a thread while appends go on, and handed back to the log on the loop.
"""

from ottla.core.disk import AppendFile, Disk
from ottla.core.errors import StorageError
from ottla.core.types import Offset
from ottla.storage.leader_epochs import LeaderEpochs
from ottla.storage.segment import Segment


class FlushJob:
    """Holds the open files it needs, so neither the cache of open files nor a deletion can take them away."""

    __slots__ = (
        "_directory",
        "_disk",
        "_files",
        "_leader_epochs",
        "error",
        "generation",
        "has_names",
        "has_run",
        "offset",
        "rolled",
    )

    def __init__(
        self,
        disk: Disk,
        directory: str,
        *,
        offset: Offset,
        files: list[AppendFile],
        leader_epochs: LeaderEpochs | None,
        names_changed: bool,
        rolled: tuple[Segment, ...],
        generation: int,
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._files = files
        self._leader_epochs = leader_epochs
        self.offset = offset
        self.rolled = rolled  # segments whose log and indexes are wholly durable after this
        self.generation = generation
        self.has_names = names_changed
        # For a stop, which may come between the thread's work and the loop's hearing of it, or before either.
        self.has_run = False
        self.error: StorageError | None = None

    def run(self) -> None:
        """Blocks; for any thread. StorageError: nothing may be taken for durable, now or after a second try."""
        try:
            for file in self._files:
                file.fsync()
            if self._leader_epochs is not None:
                self._leader_epochs.write()
            if self.has_names:
                self._disk.fsync_dir(self._directory)
        except OSError as error:
            self.error = StorageError(f"{error.filename or self._directory}: fsync failed: {error}")
            raise self.error from error
        self.has_run = True

    @property
    def has_leader_epochs(self) -> bool:
        return self._leader_epochs is not None
