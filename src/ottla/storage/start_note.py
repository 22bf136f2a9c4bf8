"""What a log directory knows of the last start that used it: the machine's boot id, and the broker's epoch.

A file of our own; `meta.properties` stays Kafka's. Whether a stop was unclean says the missing marker; only the boot id
says whether the machine went down with the process, and with it what was written but not fsynced.
"""

import json
from typing import NamedTuple

from ottla.core.disk import Disk
from ottla.core.types import NO_BROKER_EPOCH, BrokerEpoch

START_NOTE_FILE = ".ottla_start"


class StartNote(NamedTuple):
    """`broker_epoch` is that of the last registration before the start; an empty boot id is an unknown one."""

    boot_id: str = ""
    broker_epoch: BrokerEpoch = NO_BROKER_EPOCH


def read_start_note(disk: Disk, directory: str) -> StartNote:
    """An empty one when the file is missing or malformed: then nothing is known."""
    path = f"{directory}/{START_NOTE_FILE}"
    if not disk.exists(path):
        return StartNote()
    try:
        fields = json.loads(disk.read(path))
        return StartNote(str(fields["bootId"]), int(fields["brokerEpoch"]))
    except (ValueError, KeyError, TypeError):
        return StartNote()


def write_start_note(disk: Disk, directory: str, note: StartNote) -> None:
    """Durably."""
    text = json.dumps({"version": 0, "bootId": note.boot_id, "brokerEpoch": note.broker_epoch})
    disk.write_atomically(f"{directory}/{START_NOTE_FILE}", text.encode())


def is_same_boot(found: StartNote, now: StartNote) -> bool:
    """Whether the machine has run on since `found` was written: a killed process loses nothing that it wrote."""
    return bool(now.boot_id) and found.boot_id == now.boot_id
