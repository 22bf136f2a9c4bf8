"""The checked-in message classes: up to date with their generator, and pleasant to use."""

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.protocol.codec import decode, encode
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.produce import LeaderIdAndEpoch, PartitionProduceResponse

ROOT = Path(__file__).resolve().parents[2]


def test_generated_modules_are_up_to_date(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["generate_messages.py", "--check"])
    runpy.run_path(str(ROOT / "tools" / "generate_messages.py"), run_name="__main__")


def test_kio_is_not_imported_by_the_codecs():
    modules = "codec frames apis produce_codec fetch_codec produce_client_codec fetch_client_codec messages.metadata"
    imports = "; ".join(f"import ottla.protocol.{name}" for name in modules.split())
    unwanted = "{'kio', 'dataclasses', 'inspect', 'uuid', 'datetime', 'asyncio'}"
    code = f"{imports}; import sys; print(sorted({unwanted} & set(sys.modules)))"
    result = subprocess.run(
        [sys.executable, "-S", "-c", code], cwd=ROOT / "src", capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"


def test_messages_compare_by_value_and_show_their_fields():
    one = MetadataRequest(topics=[MetadataRequestTopic(name="a")])
    assert one == MetadataRequest(topics=[MetadataRequestTopic(name="a")])
    assert one != MetadataRequest(topics=[MetadataRequestTopic(name="b")])
    assert one != "a"
    assert "MetadataRequestTopic(topic_id=" in repr(one)
    assert "name='a'" in repr(one)


def test_default_lists_and_structs_are_not_shared():
    first, second = PartitionProduceResponse(), PartitionProduceResponse()
    first.record_errors.append(None)
    first.current_leader.leader_id = 7
    assert second.record_errors == []
    assert second.current_leader == LeaderIdAndEpoch()


def test_unknown_attributes_and_versions_are_refused():
    with pytest.raises(AttributeError):
        MetadataRequest().topic = []
    with pytest.raises(ValueError, match="MetadataRequest has versions 0 to 13, not 14"):
        encode(MetadataRequest(), 14)
    with pytest.raises(ValueError, match="not 14"):
        decode(MetadataRequest, 14, b"")


def test_fields_of_other_versions_are_left_out():
    request = MetadataRequest(topics=[], allow_auto_topic_creation=False)
    assert encode(request, 1) == bytes(4)
    assert decode(MetadataRequest, 1, bytes(4)).allow_auto_topic_creation is True


def test_null_where_a_version_has_none_is_our_own_error():
    with pytest.raises(TypeError):
        encode(MetadataRequest(topics=None), 0)
    assert decode(MetadataRequest, 1, encode(MetadataRequest(topics=None), 1)).topics is None
