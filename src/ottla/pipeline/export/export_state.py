"""The progress of an export: a file in its folder, written atomically.

One write of this state adds a round's files, and the offsets after them, to the export; it lists renames until they are
done. So a killed export continues where it was, with no record missing and none twice.
"""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from ottla.pipeline.fsynced import fsync_folder, write_whole

WORK_FOLDER: Final = ".ottla-export"  # readers of Parquet leave out what begins with a dot
_STATE: Final = "state.json"
_FORMAT: Final = 1


class ExportMismatch(Exception):
    """The folder holds an export with other settings, or something else."""


class Move(NamedTuple):
    """A complete file and its final name, both relative to the export's folder."""

    source: str
    target: str


class ExportState:
    """Owned by the driver of one export. `next_offsets` are those of the first records that are not in the export."""

    def __init__(self, folder: Path, shape: Mapping[str, Any]) -> None:
        self.folder = folder
        self.next_offsets: dict[str, dict[int, int]] = {}
        self.rows: dict[str, int] = {}
        self.dead: dict[str, int] = {}
        self._shape = dict(shape)
        self._moves: list[Move] = []

    @property
    def work_folder(self) -> Path:
        return self.folder / WORK_FOLDER

    @classmethod
    def open(cls, folder: Path, shape: Mapping[str, Any]) -> "ExportState":
        """Begin or continue; `shape` are the settings that must not change between runs."""
        state = cls(folder, shape)
        path = state.work_folder / _STATE
        if path.exists():
            state._load(path)
            state._finish_moves()
        elif folder.exists() and any(folder.iterdir()):
            raise ExportMismatch(f"{folder} is not empty and holds no export; name another folder, or empty it")
        state.work_folder.mkdir(parents=True, exist_ok=True)
        state._save()
        return state

    def commit(
        self,
        moves: Sequence[Move],
        *,
        next_offsets: Mapping[str, Mapping[int, int]],
        rows: Mapping[str, int],
        dead: Mapping[str, int],
    ) -> None:
        """Add a finished round: after the first write it is in the export, whatever happens next."""
        for topic, offsets in next_offsets.items():
            self.next_offsets.setdefault(topic, {}).update(offsets)
        for counts, new in ((self.rows, rows), (self.dead, dead)):
            for name, count in new.items():
                counts[name] = counts.get(name, 0) + count
        self._moves = list(moves)
        self._save()
        self._finish_moves()

    def _finish_moves(self) -> None:
        if not self._moves:
            return
        folders = set()
        for source, target in self._moves:
            place = self.folder / target
            place.parent.mkdir(parents=True, exist_ok=True)
            try:
                os.replace(self.folder / source, place)
            except FileNotFoundError:
                if not place.exists():
                    raise ExportMismatch(f"{self.folder}: {source}, to become {target}, is gone; begin anew") from None
            folders |= {place.parent, place.parent.parent}
        for folder in sorted(folders | {self.folder}):
            fsync_folder(folder)
        self._moves = []
        self._save()

    def _load(self, path: Path) -> None:
        document = json.loads(path.read_text(encoding="utf-8"))
        if document["format"] != _FORMAT:
            raise ExportMismatch(f"{path} has format {document['format']}, this version writes {_FORMAT}")
        if document["shape"] != self._shape:
            changed = sorted(name for name in self._shape if document["shape"].get(name) != self._shape[name])
            was = ", ".join(f"{name}={document['shape'].get(name)}" for name in changed)
            raise ExportMismatch(f"{self.folder} was exported with {was}; go on with that, or name another folder")
        self.next_offsets = {
            topic: {int(partition): offset for partition, offset in offsets.items()}
            for topic, offsets in document["next_offsets"].items()
        }
        self.rows = document["rows"]
        self.dead = document["dead"]
        self._moves = [Move(*move) for move in document["moves"]]

    def _save(self) -> None:
        document = {
            "format": _FORMAT,
            "shape": self._shape,
            "next_offsets": self.next_offsets,
            "rows": self.rows,
            "dead": self.dead,
            "moves": self._moves,
        }
        write_whole(self.work_folder / _STATE, json.dumps(document, indent=1).encode())
