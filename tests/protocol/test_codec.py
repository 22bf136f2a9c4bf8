"""The generic codec against kio: every generated message, every version, both ways."""

import pytest

from ottla.protocol.codec import decode, encode
from ottla.protocol.primitives import Reader

from . import foreign

MESSAGES = foreign.versions_by_message()


@pytest.mark.parametrize("ours", MESSAGES, ids=lambda ours: ours.__name__)
def test_message_has_the_content_and_the_bytes_that_kio_gives_it(ours):
    for version, theirs in MESSAGES[ours]:
        for entity in foreign.samples(theirs, 6):
            data = foreign.encode(entity)
            reader = Reader(data)
            message = decode(ours, version, reader)
            assert reader.remaining == 0, version
            foreign.assert_same_content(message, entity)
            assert encode(message, version) == data, version
