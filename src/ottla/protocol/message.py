"""The base of every message of the wire protocol: its fields, and the versions of each field.

The classes in `messages/` have this description; `codec` compiles it. One class serves all versions of a message.
"""

from typing import ClassVar, Final, NamedTuple, TypeAlias

# First and last version, both included.
Versions: TypeAlias = tuple[int, int]

# `FLEXIBLE_SINCE` of a message that has no flexible version.
NEVER_FLEXIBLE: Final = 32767

# Kafka writes this when there is no topic id.
ZERO_UUID: Final = bytes(16)

MessageClass: TypeAlias = "type[Message]"


class Field(NamedTuple):
    """One field of a message.

    `type` is a primitive (`int32`, `string`, `uuid` ...), `struct`, or either of them as an array (`[]int32`,
    `[]struct`). `default` is for primitives only: arrays start empty and structs with their own defaults, unless they
    may be null, then they start as None.
    """

    name: str
    type: str
    versions: Versions
    nullable_versions: Versions | None = None
    tag: int | None = None
    tagged_versions: Versions | None = None
    default: object = None
    struct: "MessageClass | None" = None

    def is_in(self, version: int) -> bool:
        return self.versions[0] <= version <= self.versions[1]

    def is_nullable_in(self, version: int) -> bool:
        return self.nullable_versions is not None and self.nullable_versions[0] <= version <= self.nullable_versions[1]

    def is_tagged_in(self, version: int) -> bool:
        return self.tagged_versions is not None and self.tagged_versions[0] <= version <= self.tagged_versions[1]


class Message:
    """A struct: a part of a message, or a whole one. Plain mutable attributes, compared by value."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]

    FIELDS: ClassVar[tuple[Field, ...]] = ()

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, field.name) == getattr(other, field.name) for field in self.FIELDS)

    def __repr__(self) -> str:
        values = ", ".join(f"{field.name}={getattr(self, field.name)!r}" for field in self.FIELDS)
        return f"{type(self).__name__}({values})"


class EncodedStruct(Message):
    """A struct that is encoded already, for an array of structs that are sent often and change seldom.

    The bytes must have the version of the message around them (`codec.encode_struct`).
    """

    __slots__ = ("data", "error_code")

    def __init__(self, data: bytes, *, error_code: int = 0) -> None:
        self.data = data
        self.error_code = error_code  # the struct's own, for code that reads a response before it is sent


class VersionedMessage(Message):
    """A whole message; its version is not part of its bytes."""

    __slots__ = ()

    VERSIONS: ClassVar[Versions]
    FLEXIBLE_SINCE: ClassVar[int]


class ApiMessage(VersionedMessage):
    """The body of a request or of a response."""

    __slots__ = ()

    API_KEY: ClassVar[int]
