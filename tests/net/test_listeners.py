"""`listeners` and its relatives: what is read, what is refused and with which words."""

import pytest

from ottla.net.listeners import Endpoint, ListenerConfigError, plan_listeners


def test_names_hosts_ports_and_their_protocols_are_read() -> None:
    plan = plan_listeners(
        listeners="PLAINTEXT://127.0.0.1:9092, internal://[::1]:9093,WIDE://:0",
        advertised_listeners="PLAINTEXT://broker.example:19092,INTERNAL://[2001:db8::5]:9093",
        security_protocol_map="INTERNAL:PLAINTEXT,WIDE:PLAINTEXT",
        inter_broker_listener_name="INTERNAL",
    )
    assert plan.listeners == (
        Endpoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", 9092),
        Endpoint("INTERNAL", "PLAINTEXT", "::1", 9093),
        Endpoint("WIDE", "PLAINTEXT", "", 0),
    )
    assert plan.advertised == (
        Endpoint("PLAINTEXT", "PLAINTEXT", "broker.example", 19092),
        Endpoint("INTERNAL", "PLAINTEXT", "2001:db8::5", 9093),
    )
    assert plan.inter_broker_listener_name == "INTERNAL"
    assert str(plan.advertised[1]) == "INTERNAL://[2001:db8::5]:9093"


def test_listeners_are_advertised_as_they_are_when_nothing_else_is_said() -> None:
    plan = plan_listeners(listeners="PLAINTEXT://127.0.0.1:9092")
    assert plan.advertised == plan.listeners
    assert plan.inter_broker_listener_name == "PLAINTEXT"


def test_listener_on_every_interface_is_advertised_by_a_name() -> None:
    (advertised,) = plan_listeners(listeners="PLAINTEXT://:9092").advertised
    assert advertised.host
    assert advertised.port == 9092


def test_port_chosen_by_the_kernel_is_the_one_advertised() -> None:
    plan = plan_listeners(
        listeners="PLAINTEXT://127.0.0.1:0,SECOND://127.0.0.1:7", security_protocol_map="SECOND:PLAINTEXT"
    )
    advertised = plan.advertised_with_bound_ports({"PLAINTEXT": 40_001, "SECOND": 7})
    assert [endpoint.port for endpoint in advertised] == [40_001, 7]


def test_one_port_may_be_shared_by_the_two_address_families() -> None:
    plan = plan_listeners(
        listeners="PLAINTEXT://127.0.0.1:9092,SIX://[::1]:9092", security_protocol_map="SIX:PLAINTEXT"
    )
    assert len(plan.listeners) == 2


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"listeners": ""}, "no listener given"),
        ({"listeners": "127.0.0.1:9092"}, "not NAME://host:port"),
        ({"listeners": "PLAINTEXT://127.0.0.1"}, "not NAME://host:port"),
        ({"listeners": "PLAINTEXT://127.0.0.1:port"}, "'port' is not a number"),
        ({"listeners": "PLAINTEXT://127.0.0.1:65536"}, "'65536' is not a number of 0-65535"),
        ({"listeners": "PLAINTEXT://127.0.0.1:-1"}, "is not a number"),
        ({"listeners": "PLAINTEXT://::1:9092"}, "in brackets"),
        ({"listeners": "PLAINTEXT://a:1,PLAINTEXT://b:2"}, "there twice"),
        ({"listeners": "PLAINTEXT://a:1,B://b:1", "security_protocol_map": "B:PLAINTEXT"}, "share a port"),
        ({"listeners": "MINE://127.0.0.1:9092"}, "add MINE:PLAINTEXT to listener.security.protocol.map"),
        ({"listeners": "SSL://127.0.0.1:9092"}, "SSL is not served by this version"),
        ({"listeners": "SASL_PLAINTEXT://127.0.0.1:9092"}, "SASL_PLAINTEXT is not served"),
        ({"listeners": "A://h:1", "security_protocol_map": "A:SASL_SSL"}, "SASL_SSL is not served"),
        ({"listeners": "A://h:1", "security_protocol_map": "A:QUIC"}, "with a protocol of PLAINTEXT, SSL"),
        ({"listeners": "PLAINTEXT://0.0.0.0:9092"}, "set advertised.listeners"),
        (
            {"listeners": "PLAINTEXT://h:1", "advertised_listeners": "PLAINTEXT://:1"},
            "no client can connect to that address",
        ),
        (
            {
                "listeners": "PLAINTEXT://h:1",
                "advertised_listeners": "B://h:1",
                "security_protocol_map": "B:PLAINTEXT",
            },
            "has no listener of its name",
        ),
        ({"listeners": "PLAINTEXT://h:1", "inter_broker_listener_name": "B"}, "B is not advertised"),
    ],
)
def test_settings_that_cannot_be_followed_are_refused_in_words(settings: dict[str, str], words: str) -> None:
    with pytest.raises(ListenerConfigError, match=words):
        plan_listeners(**settings)
