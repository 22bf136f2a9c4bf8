"""An app with confluent-kafka: reads orders, writes one receipt for each, and commits what is done."""

import json
from collections.abc import Callable

from confluent_kafka import Consumer, KafkaException, Message, Producer


class Settlement:
    """`run` until `should_stop`. A receipt is stored before its order is committed: none is lost."""

    def __init__(self, bootstrap_servers: str, *, orders: str, receipts: str, group: str = "settlement") -> None:
        self._receipts = receipts
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap_servers,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        self._producer = Producer(
            {"bootstrap.servers": bootstrap_servers, "client.id": "settlement", "enable.idempotence": True}
        )
        self._consumer.subscribe([orders])

    def run(self, should_stop: Callable[[], bool]) -> None:
        try:
            while not should_stop():
                message = self._consumer.poll(0.05)
                if message is not None and message.error() is None:
                    self._settle(message)
        finally:
            self._consumer.close()

    def _settle(self, message: Message) -> None:
        order = json.loads(message.value() or b"{}")
        receipt = {"order": order["id"], "cents": order["cents"]}
        failures: list[KafkaException] = []
        self._producer.produce(
            self._receipts,
            json.dumps(receipt).encode(),
            key=str(order["id"]).encode(),
            on_delivery=lambda error, _: failures.append(KafkaException(error)) if error else None,
        )
        self._producer.flush()
        if failures:
            raise failures[0]
        self._consumer.commit(message, asynchronous=False)
