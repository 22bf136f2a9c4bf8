"""The states of a broker's life, with the numbers that Kafka's BrokerState has."""

from enum import IntEnum


class BrokerState(IntEnum):
    NOT_RUNNING = 0
    STARTING = 1
    RECOVERING = 2
    RUNNING = 3
    RUNNING_AS_CONTROLLER = 4
    PENDING_CONTROLLED_SHUTDOWN = 6
    SHUTTING_DOWN = 7
