"""Durations, Kubernetes quantities, times and plain numbers, from text and back (specification, sections 1 and 6).

In: the text of one value and the `Rule` it is under. Out: a number in the unit of the code (seconds, cores, bytes, epoch seconds), or
ValueError whose text is a hint. What is allowed in words: `Rule.allowed()`.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal

from msgspec import Struct

_NUMBER = re.compile(r"[-+]?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]{1,3})?")
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d)")
_QUANTITY = re.compile(r"([-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))(?:([numkMGTPE]|[KMGTPE]i)|[eE]([-+]?[0-9]{1,3}))?")
DURATION_TEXT = f"^({_DURATION.pattern})+$"  # what a whole text matches, also for other readers of regular expressions
QUANTITY_TEXT = f"^{_QUANTITY.pattern}$"
_TIME = re.compile(
    r"(\d{4})-(\d\d?)-(\d\d?)(?:[Tt]|[ \t]+)(\d\d?):(\d\d):(\d\d)(?:[.,](\d{1,9}))?[ \t]*(?:([Zz])|([-+])(\d\d?)(?::?(\d\d))?)?",
    re.ASCII,
)
_SECONDS = {"ms": Decimal("0.001"), "s": Decimal(1), "m": Decimal(60), "h": Decimal(3600), "d": Decimal(86400)}
_DURATION_HINT = "written like 500ms, 30s, 5m, 1h30m, 2d"
_DECIMAL = dict(zip("numkMGTPE", (-9, -6, -3, 3, 6, 9, 12, 15, 18), strict=True))
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_LONGEST = 64  # characters of a number; keeps int() and Decimal cheap
LAST_TIME = 253402300799.0  # epoch seconds: the end of the year 9999, the last that can be written
_LARGEST = 2**63 - 1  # a Kubernetes quantity is an int64

_NOUN = {
    "duration": "a duration (500ms, 1s, 5m, 1h)",
    "time": "a time (2026-11-11T20:00:16Z, or an offset such as +01:00)",
    "cores": "cores (2, 0.5 or 500m)",
    "bytes": "bytes (2Gi, 500Mi, 1G or a whole number)",
}


class Rule(Struct, frozen=True, kw_only=True):
    """What one value may be: its unit ("duration", "time", "cores", "bytes"; any other is a plain number), bounds inclusive, and `above`,
    a lower bound that is itself not allowed. `required`: leaving the key out is a problem."""

    unit: str = "number"
    low: float | None = None
    high: float | None = None
    above: float | None = None
    required: bool = False

    @property
    def has_suffix(self) -> bool:
        """Whether values carry their unit in the text, so that quotes change nothing."""
        return self.unit in _NOUN

    def allows(self, value: float) -> bool:
        """Whether a value is within the bounds."""
        below = (self.low is not None and value < self.low) or (self.above is not None and value <= self.above)
        return not below and not (self.high is not None and value > self.high)

    def allowed(self, *, whole: bool = False) -> str:
        """Say it in words: "a number from 1 to 4"."""
        noun = _NOUN.get(self.unit) or ("a whole number" if whole else "a number")
        low, high, above = (None if bound is None else self._shown(bound) for bound in (self.low, self.high, self.above))
        if above is not None:
            return f"{noun} above {above}" + (f", at most {high}" if high is not None else "")
        if low is not None and high is not None:
            return f"{noun.partition(' (')[0] if self.unit == 'duration' else noun} from {low} to {high}"
        if low is not None:
            return f"{noun}, {low} or more"
        return noun if high is None else f"{noun}, at most {high}"

    def _shown(self, bound: float) -> str:
        return shown_duration(bound) if self.unit == "duration" else f"{bound:.15g}"


ANY = Rule()


def number(text: str, rule: Rule) -> float:
    """Return the number that a text stands for in the rule's unit, bounds not yet checked; ValueError says what could be meant."""
    if len(text) > _LONGEST:
        raise ValueError("too many digits")
    reader = {"duration": duration, "time": time, "cores": cores, "bytes": size}.get(rule.unit, plain)
    value = reader(text)
    if not math.isfinite(value):
        raise ValueError("the number is too large")
    return value


def plain(text: str) -> float:
    """A JSON number, or one with a leading sign or dot."""
    if not _NUMBER.fullmatch(text):
        if text.endswith("%") and _NUMBER.fullmatch(text[:-1]):
            raise ValueError("write it without %")
        raise ValueError("")
    return float(text)


def whole(text: str) -> int:
    """A whole number, without leading zeros or underscores."""
    if not re.fullmatch(r"[-+]?(?:0|[1-9][0-9]{0,39})", text):
        raise ValueError("")
    return int(text)


def duration(text: str) -> float:
    """Seconds of `500ms`, `1s`, `5m`, `1h`, `1d`, or several in a row (`1m30s`)."""
    parts = _DURATION.findall(text)
    if not parts or "".join(amount + unit for amount, unit in parts) != text:
        raise ValueError(f"a duration needs its unit: {text}s or {text}ms?" if _NUMBER.fullmatch(text) else _DURATION_HINT)
    return float(sum(Decimal(amount) * _SECONDS[unit] for amount, unit in parts))


def cores(text: str) -> float:
    """Cores of a Kubernetes CPU quantity."""
    return float(_quantity(text))


def size(text: str) -> int:
    """Bytes of a Kubernetes memory quantity, fractions rounded up."""
    value = _quantity(text)
    if abs(value) > _LARGEST:
        raise ValueError("the number is too large")
    return math.ceil(value)


def _quantity(text: str) -> Decimal:
    match = _QUANTITY.fullmatch(text)
    if not match:
        lowered = text.lower().removesuffix("b")
        near = re.fullmatch(r"([0-9.]+) ?([kmgtp])(i?)", lowered)
        raise ValueError(f"{near[1]}{near[2].upper()}i?" if near and near[1] else "")
    amount = Decimal(match[1])
    if match[3]:
        return amount.scaleb(int(match[3]))
    if match[2] in _BINARY:
        return amount * (1 << _BINARY[match[2]])
    return amount.scaleb(_DECIMAL[match[2]]) if match[2] else amount


def time(text: str) -> float:
    """Epoch seconds of an ISO 8601 or YAML time with a zone, or of a plain number (what the engine writes itself)."""
    match = _TIME.fullmatch(text)
    if not match:
        return plain(text)
    year, month, day, hour, minute, second = (int(part) for part in match.groups()[:6])
    if not match[8] and not match[9]:
        raise ValueError(f"the time zone is missing: {text}Z?")
    offset = timedelta()
    if match[9]:
        offset = timedelta(hours=int(match[10]), minutes=int(match[11] or 0)) * (-1 if match[9] == "-" else 1)
    try:
        moment = datetime(year, month, day, hour, minute, second, tzinfo=timezone(offset))
        return moment.timestamp() + float(f"0.{match[7] or 0}")
    except (ValueError, OverflowError) as error:
        raise ValueError(str(error)) from None


def shown_duration(seconds: float) -> str:
    """Write seconds as a person would: 100ms, 3s, 10m, 1h; only where that is exact."""
    for name, length in (("h", 3600), ("m", 60)):
        if seconds and seconds % length == 0:
            return f"{seconds / length:.15g}{name}"
    return f"{seconds:.15g}s" if seconds >= 1 or seconds == 0 else f"{seconds * 1000:.15g}ms"


def shown_bytes(amount: float) -> str:
    """Write bytes with three digits and a binary unit: 1.5Gi."""
    for name, power in (("Ti", 40), ("Gi", 30), ("Mi", 20), ("Ki", 10)):
        if abs(amount) >= 1 << power:
            return f"{amount / (1 << power):.3g}{name}" if abs(amount) < 1000 * (1 << power) else f"{amount / (1 << power):.0f}{name}"
    return f"{amount:.0f}"


def written_bytes(amount: int) -> str:
    """Write bytes exactly, with the largest binary unit of which they are a whole number: 2Gi, 1500Mi, 1."""
    for name, power in sorted(_BINARY.items(), key=lambda unit: -unit[1]):
        if amount and amount % (1 << power) == 0:
            return f"{amount >> power}{name}"
    return str(amount)


def shown_time(epoch: float) -> str:
    """Write epoch seconds in ISO 8601, UTC, to the second where that is exact."""
    text = datetime.fromtimestamp(epoch, UTC).isoformat(timespec="seconds" if epoch == int(epoch) else "milliseconds")
    return text.replace("+00:00", "Z")
