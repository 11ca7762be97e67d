"""What a recording is made of, as data: one `Message` for each cycle (docs/record.md).

A field that is left out is as in the cycle before. Readings are in columns of differences (columns.py, grid.py); what is declared, done or
configured stands in full when it changes. Unknown fields are ignored, so that a later version may add some.
"""

from __future__ import annotations

import json
from typing import TypeVar

import msgspec
from msgspec import UNSET, Struct, UnsetType

from qosmanager.config.settings import Settings
from qosmanager.model.actions import Outcome, Plan, Receipt
from qosmanager.model.attribution import Attribution
from qosmanager.model.forecast import Forecast
from qosmanager.model.pause import Pause
from qosmanager.model.snapshot import Node, Pod
from qosmanager.model.state import State


class Place(Struct, frozen=True):
    """Where a pod lies, relative to the cgroup root, and how long it may take to end (seconds)."""

    cgroup: str
    grace: float


class Places(Struct, frozen=True, kw_only=True):
    """Where the pods lie: each by its key, and the group that holds all BE and nothing else, if there is one."""

    pods: dict[str, Place] = {}
    be_parent: str | None = None
    kubelet_owned: bool = False
    kubelet_cpusets: str | None = None


class Roster(Struct, frozen=True):
    """Who is here now, in the order of the snapshot: for each pod its place in the roster before (-1: it is new), and those that are new or
    declared otherwise, by place, without their readings."""

    order: list[int]
    pods: dict[int, Pod]


class Message(Struct, kw_only=True, omit_defaults=True):
    """One cycle. `before` is the engine's state before it, where it does not follow from the cycle before."""

    scalars: bytes  # number, times, stages, the agent's own use, the node's readings
    plan: Plan
    cpu: bytes = b""
    memory: bytes = b""
    latency: bytes = b""
    observed: bytes = b""
    receipts: tuple[Receipt, ...] = ()
    outcomes: tuple[Outcome, ...] = ()
    before: State | UnsetType = UNSET
    settings: Settings | UnsetType = UNSET
    stages: tuple[str, ...] | UnsetType = UNSET
    node: Node | UnsetType = UNSET  # without its readings
    roster: Roster | UnsetType = UNSET
    be_cpus: tuple[int, ...] | UnsetType = UNSET
    be_shielded: bool | UnsetType = UNSET
    be_memory: int | UnsetType | None = UNSET
    pods_age: float | UnsetType | None = UNSET
    missing: dict[str, str | None] | UnsetType = UNSET  # what changed; None: measured again
    places: Places | UnsetType = UNSET
    pause: Pause | UnsetType | None = UNSET
    forecasts: tuple[Forecast, ...] | UnsetType = UNSET
    attributions: tuple[Attribution, ...] | UnsetType = UNSET
    cause: str = ""  # why the cycle came before its turn
    thrift: tuple[int, str] | UnsetType | None = UNSET  # steps and reason of the agent's own use; None: it is not looked at


T = TypeVar("T", bound=Struct)
_MSGPACK, _JSON = b"m", b"j"
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Message)


def encode(message: Message) -> bytes:
    """Return the message as bytes."""
    try:
        return _MSGPACK + _encoder.encode(message)
    except UnicodeEncodeError:  # a group may bear a name that is no text
        return _JSON + json.dumps(msgspec.to_builtins(message, str_keys=True)).encode("ascii")


def decode(data: bytes) -> Message:
    """Return the message. Raises msgspec.DecodeError, msgspec.ValidationError, ValueError, RecursionError."""
    kind, body = data[:1], data[1:]
    if kind == _MSGPACK:
        return _decoder.decode(body)
    if kind == _JSON:
        return msgspec.convert(json.loads(body), Message, str_keys=True)
    raise ValueError("no kind of message that is known")


def canonical(value: T) -> T:
    """Return a value as it is read back: a number that happens to be whole is a float where floats belong."""
    try:
        return msgspec.msgpack.decode(_encoder.encode(value), type=type(value))
    except UnicodeEncodeError:
        return msgspec.convert(json.loads(json.dumps(msgspec.to_builtins(value))), type(value))


def as_bytes(value: Struct) -> bytes:
    """Return a value as the bytes by which two are compared."""
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:
        return json.dumps(msgspec.to_builtins(value)).encode("ascii")
