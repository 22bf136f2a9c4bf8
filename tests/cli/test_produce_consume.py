"""`ottla produce` and `ottla consume` on a real broker; and their pieces without one."""

import base64
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla import Admin, NewTopic
from ottla.cli.escapes import unescape
from ottla.cli.main import main
from ottla.cli.offset_choice import OffsetChoice, choice_of_reset, parse_offset_choice
from ottla.cli.produce_input import LineRules, MessageSource, line_parser, rules_with_properties
from ottla.cli.record_format import compile_format, plain_printer
from ottla.cli.record_json import InputRecord, UnreadableRecord, json_lines, parse_json_record
from ottla.clients.consumer.values import ConsumerRecord
from ottla.clients.topics import EARLIEST, LATEST
from tests.processes import BrokerProcess

RECORD = ConsumerRecord("50%t", 3, 7, 1_700_000_000_000, b"k", b"v", (("h", b"1"), ("n", None)))
NULLS = ConsumerRecord("50%t", 3, 8, -1, None, None)


def test_escapes() -> None:
    assert unescape(r"a\tb\n\x1e\\\q") == b"a\tb\n\x1e\\\\q"


def test_every_token_of_a_format() -> None:
    printer = compile_format(r"%t %p %o %k %K %s %S %R %h %T %%\n", null=b"NULL")
    assert printer([RECORD, NULLS]) == (
        b"50%t 3 7 k 1 v 1 \x00\x00\x00\x01 h=1,n=NULL 1700000000000 %\n"
        b"50%t 3 8 NULL -1 NULL -1 \xff\xff\xff\xff  -1 %\n"
    )


@pytest.mark.parametrize("text", ["%x", "50%"])
def test_a_format_with_an_unknown_token_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="%"):
        compile_format(text)


def test_plain_output_with_and_without_keys() -> None:
    assert plain_printer(key_delimiter=None, delimiter=b"\n")([RECORD, NULLS]) == b"v\n\n"
    assert plain_printer(key_delimiter=b":", delimiter=b";", null=b"-")([RECORD, NULLS]) == b"k:v;-:-;"


optional_bytes = st.none() | st.binary(max_size=20) | st.text(max_size=10).map(str.encode)


@settings(deadline=None, max_examples=100)
@given(
    key=optional_bytes,
    value=optional_bytes,
    headers=st.lists(st.tuples(st.text(max_size=5), optional_bytes), max_size=3),
    timestamp_ms=st.integers(0, 2**50),
)
def test_json_lines_keep_every_byte(
    key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes | None]], timestamp_ms: int
) -> None:
    line = json_lines([ConsumerRecord("50%t", 3, 0, timestamp_ms, key, value, tuple(headers))])
    assert line.count(b"\n") == 1
    record = parse_json_record(line)
    assert record._replace(headers=tuple(record.headers)) == InputRecord(
        value, key, tuple(headers), timestamp_ms, 3, "50%t"
    )


def test_json_fields_are_those_of_kcat() -> None:
    (line,) = json_lines([RECORD], lambda topic_partition: 1).splitlines()
    assert list(json.loads(line).items()) == [
        ("topic", "50%t"), ("partition", 3), ("offset", 7), ("tstype", "create"), ("ts", 1_700_000_000_000),
        ("broker", 1), ("headers", ["h", "1", "n", None]), ("key", "k"), ("payload", "v"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"{", "no JSON"),
        (b"[]", "object"),
        (b'{"payload": 1}', "payload: a string"),
        (b'{"headers": ["a"]}', "names and values"),
        (b'{"key_base64": "!"}', "no base64"),
        (b'{"partition": "1"}', "whole number"),
        (b'{"payload": "\\ud800"}', "surrogate"),
    ],
)
def test_json_that_is_no_record_is_refused_with_the_reason(line: bytes, reason: str) -> None:
    with pytest.raises(UnreadableRecord, match=reason):
        parse_json_record(line)


def test_lines_under_the_properties_of_the_console_producer() -> None:
    properties = {"parse.key": "true", "parse.headers": "true", "null.marker": "NIL"}
    parse = line_parser(rules_with_properties(LineRules(), properties))
    assert parse(b"a:1,b:NIL\tkey\tNIL") == InputRecord(None, b"key", [("a", b"1"), ("b", None)])
    with pytest.raises(UnreadableRecord, match="key separator"):
        parse(b"a:1\tno key")
    with pytest.raises(ValueError, match="pares"):
        rules_with_properties(LineRules(), {"pares.key": "true"})


@settings(deadline=None, max_examples=50)
@given(
    messages=st.lists(st.binary(max_size=30).filter(lambda data: b";" not in data), max_size=8),
    delimiter=st.sampled_from([b";", b";;"]),
    cuts=st.lists(st.integers(0, 200), max_size=4),
)
def test_messages_are_the_same_however_the_input_is_cut(
    messages: list[bytes], delimiter: bytes, cuts: list[int]
) -> None:
    data = delimiter.join([*messages, b""])
    reading, writing = os.pipe()
    try:
        source = MessageSource(reading, delimiter)
        seen = []
        edges = sorted({0, len(data), *(min(cut, len(data)) for cut in cuts)})
        for start, end in pairwise(edges):
            os.write(writing, data[start:end])
            seen += source.read(0)
        os.close(writing)
        writing = -1
        while not source.is_at_end:
            seen += source.read(1_000)
        assert seen == messages
    finally:
        os.close(reading)
        if writing >= 0:
            os.close(writing)


def test_offset_choices() -> None:
    assert parse_offset_choice(["beginning"]) == OffsetChoice(special=EARLIEST)
    assert parse_offset_choice(["end"]) == OffsetChoice(special=LATEST)
    assert parse_offset_choice(["-5", "e@9"]) == OffsetChoice(last_count=5, end_ms=9)
    assert parse_offset_choice(["s@5"]) == OffsetChoice(start_ms=5)
    assert parse_offset_choice(["5"]) == OffsetChoice(offset=5)
    for wrong in (["x"], ["1", "2"], ["s@"], ["-"]):
        with pytest.raises(ValueError, match="-o"):
            parse_offset_choice(wrong)
    assert choice_of_reset("earliest", 0) == OffsetChoice(special=EARLIEST)
    assert choice_of_reset("by_duration:PT1S", 5_000) == OffsetChoice(start_ms=4_000)
    with pytest.raises(ValueError, match="none"):
        choice_of_reset("none", 0)


@pytest.mark.parametrize(
    "arguments",
    [
        ["produce"],
        ["produce", "-t", "t", "-X", "linger=5"],
        ["produce", "-t", "t", "-X", "acks=2"],
        ["produce", "-t", "t", "-D", ""],
        ["produce", "-t", "t", "-X", "bootstrap.servers=127.0.0.1:2"],
        ["produce", "-t", "t", "-X", "transactional.id=t"],
        ["consume", "-t", "t", "-X", "group.id=g"],
        ["consume", "-t", "t", "-X", "fetch.max.byte=1"],
        ["consume", "-t", "t", "-o", "end", "-X", "auto.offset.reset=earliest"],
        ["consume", "-t", "t", "-o", "stored"],
        ["consume", "-t", "t", "-f", "%y"],
        ["consume", "-t", "t", "-p", "0", "-g", "g"],
        ["consume", "-t", "t", "-J", "-f", "%s"],
    ],
)
def test_wrong_usage_is_told_before_any_broker_is_asked(arguments: list[str]) -> None:
    assert main([*arguments, "-b", "127.0.0.1:1"]) == 2


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    running = BrokerProcess(
        tmp_path_factory.mktemp("cli") / "data", "auto.create.topics.enable=false", "group.initial.rebalance.delay.ms=0"
    ).start()
    yield running
    running.close()


def create(broker: BrokerProcess, name: str, *, partitions: int = 1, **configs: str) -> str:
    dotted = tuple((key.replace("_", "."), value) for key, value in configs.items())
    with Admin(bootstrap_servers=broker.address) as admin:
        admin.create_topics([NewTopic(name, partitions, 1, dotted)])
    return name


def ottla(broker: BrokerProcess, *arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "ottla.cli.main", arguments[0], "-b", broker.address, *arguments[1:]]
    return subprocess.run(command, input=stdin, capture_output=True, timeout=120, check=False)


@pytest.mark.process
def test_lines_go_in_and_come_out(broker: BrokerProcess, tmp_path: Path) -> None:
    topic = create(broker, "lines")
    sent = ottla(broker, "produce", "-t", topic, "-K:", "-Z", "-v", stdin=b"a:1\nb:\n\nno key")
    assert (sent.returncode, sent.stdout) == (0, b"")
    assert b"4 messages stored" in sent.stderr
    read = ottla(broker, "consume", "-t", topic, "-e", "-Z", "-K:")
    assert (read.returncode, read.stdout) == (0, b"a:1\nb:NULL\nNULL:NULL\nNULL:no key\n")
    assert b"Reached end of topic lines [0] at offset 4: exiting" in read.stderr
    whole = tmp_path / "whole"
    whole.write_bytes(b"two\nlines")
    assert ottla(broker, "produce", "-t", topic, str(whole)).returncode == 0
    assert ottla(broker, "produce", "-t", topic, "-l", "-c", "1", str(whole)).returncode == 0
    assert ottla(broker, "consume", "-t", topic, "-o", "-2", "-e", "-q", "-D", "|").stdout == b"two\nlines|two|"
    assert ottla(broker, "consume", "-t", topic, "-o", "1", "-c", "1", "-q", "-f", "%o").stdout == b"1"


@pytest.mark.process
def test_json_lines_restore_records_in_their_partitions(broker: BrokerProcess) -> None:
    source, copy = create(broker, "json-source", partitions=3), create(broker, "json-copy", partitions=3)
    binary = base64.b64encode(b"\xff\xfe").decode()
    lines = [
        {"key": "k", "payload_base64": binary, "partition": 2, "ts": 1_600_000_000_000, "headers": ["h", None]},
        {"topic": source, "key": None, "payload": None, "partition": 0, "ts": 1_600_000_000_001},
    ]
    sent = ottla(broker, "produce", "-t", source, "-J", stdin="\n".join(map(json.dumps, lines)).encode())
    assert sent.returncode == 0, sent.stderr
    first = ottla(broker, "consume", "-t", source, "-e", "-q", "-J").stdout
    assert ottla(broker, "produce", "-t", copy, "-J", "-z", "zstd", stdin=first).returncode == 0
    second = ottla(broker, "consume", "-t", copy, "-e", "-q", "-J").stdout
    assert sorted(second.replace(b"json-copy", b"json-source").splitlines()) == sorted(first.splitlines())
    timed = ottla(broker, "consume", "-t", source, "-o", "s@1600000000000", "-o", "e@1600000000001", "-q", "-f", "%p")
    assert (timed.returncode, timed.stdout) == (0, b"2")


@pytest.mark.process
def test_failures_name_their_lines(broker: BrokerProcess) -> None:
    topic = create(broker, "failing", max_message_bytes="500")
    refused = ottla(
        broker, "produce", "-t", topic, "-X", "batch.size=100", stdin=b"fits\n" + b"x" * 1_000 + b"\nfits\n"
    )
    assert refused.returncode == 1
    assert b"line 2: not stored in failing-0: MESSAGE_TOO_LARGE" in refused.stderr
    assert b"2 messages stored" in refused.stderr
    unread = ottla(broker, "produce", "-t", topic, "-J", stdin=b'{"payload": "v"}\n{"partition": 7}\n')
    assert (unread.returncode, b"line 2: topic failing has 1 partition" in unread.stderr) == (1, True)
    assert b"Traceback" not in refused.stderr + unread.stderr


@pytest.mark.process
def test_settings_of_the_clients_are_taken_in_the_names_of_others_too(broker: BrokerProcess) -> None:
    topic = create(broker, "settings", partitions=3)
    sent = ottla(
        broker, "produce", "-t", topic, "-X", "partitioner.class=round-robin", "-X", "queue.buffering.max.ms=0",
        stdin=b"a\nb\nc\n",
    )  # fmt: skip
    assert sent.returncode == 0, sent.stderr
    read = ottla(broker, "consume", "-t", topic, "-e", "-q", "-X", "fetch.wait.max.ms=10", "-f", r"%p\n")
    assert sorted(read.stdout.split()) == [b"0", b"1", b"2"]
    reset = ottla(broker, "consume", "-t", topic, "-e", "-q", "-X", "auto.offset.reset=latest")
    assert (reset.returncode, reset.stdout) == (0, b"")


@pytest.mark.process
def test_a_group_goes_on_behind_what_was_printed(broker: BrokerProcess) -> None:
    topic = create(broker, "grouped")
    ottla(broker, "produce", "-t", topic, stdin=b"".join(b"%d\n" % number for number in range(10)))
    group = ["-t", topic, "-g", "printed", "--from-beginning"]
    first = ottla(broker, "consume", *group, "-c", "3")
    assert (first.returncode, first.stdout) == (0, b"0\n1\n2\n")
    assert b"% Group printed: assigned grouped [0]" in first.stderr
    assert ottla(broker, "consume", *group, "-e", "-q").stdout == b"3\n4\n5\n6\n7\n8\n9\n"
    # Without an offset of its own a group begins where -o says, and a time ends it before what came later.
    last = ottla(broker, "consume", "-t", topic, "-g", "late", "-o", "-2", "-e", "-q")
    assert (last.returncode, last.stdout) == (0, b"8\n9\n")
    nothing = ottla(broker, "consume", "-t", topic, "-g", "early", "-o", "beginning", "-o", "e@1000", "-q")
    assert (nothing.returncode, nothing.stdout) == (0, b"")


@pytest.mark.process
def test_an_offset_that_is_not_there_is_told_and_the_nearest_taken(broker: BrokerProcess) -> None:
    topic = create(broker, "short")
    ottla(broker, "produce", "-t", topic, stdin=b"only\n")
    read = ottla(broker, "consume", "-t", topic, "-o", "99", "-e")
    assert (read.returncode, read.stdout) == (0, b"")
    assert b"% short-0: there is no offset 99; reading on from 1" in read.stderr


@pytest.mark.process
@pytest.mark.parametrize("command", ["produce", "consume"])
def test_a_topic_that_is_not_there_is_told(broker: BrokerProcess, command: str) -> None:
    finished = ottla(broker, command, "-t", "missing", stdin=b"x\n")
    assert (finished.returncode, finished.stdout) == (1, b"")
    assert b"topic missing does not exist" in finished.stderr


@pytest.mark.process
def test_a_reader_that_goes_away_ends_it_quietly(broker: BrokerProcess) -> None:
    topic = create(broker, "piped")
    ottla(broker, "produce", "-t", topic, stdin=b"line\n" * 50_000)
    command = [sys.executable, "-m", "ottla.cli.main", "consume", "-b", broker.address, "-t", topic, "-q"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"line\n"
        process.stdout.close()
        assert process.wait(timeout=120) == 0
        assert process.stderr is not None
        assert process.stderr.read() == b""


@pytest.mark.process
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_a_waiting_reader_with_130(broker: BrokerProcess, number: signal.Signals) -> None:
    topic = create(broker, f"waiting-{number.value}")
    ottla(broker, "produce", "-t", topic, stdin=b"first\n")
    command = [sys.executable, "-m", "ottla.cli.main", "consume", "-b", broker.address, "-t", topic, "-q"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"first\n"  # written out while it waits for more
        process.send_signal(number)
        assert process.wait(timeout=120) == 130
        assert process.stderr is not None
        assert process.stderr.read() == b""
