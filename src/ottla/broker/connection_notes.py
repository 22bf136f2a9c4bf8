"""What the handlers note about a connection, in the one slot that the network keeps for them."""

from ottla.core.exchange import Peer


class ConnectionNotes:
    """Lives as long as its connection."""

    __slots__ = ("client_software", "produce_head_end")

    def __init__(self) -> None:
        self.client_software = ""  # as ApiVersions named it
        self.produce_head_end = 0  # where the records began in the last produce request, if its head was remembered


def notes_of(peer: Peer) -> ConnectionNotes:
    """The notes about a connection; the first call makes them."""
    notes = peer.handler_notes
    if notes is None:
        notes = peer.handler_notes = ConnectionNotes()
    assert isinstance(notes, ConnectionNotes)
    return notes
