"""What a service is expected to want soon, from what it wanted at this time of day (specification, section 3: forecast)."""

from __future__ import annotations

from msgspec import Struct


class Forecast(Struct, frozen=True, gc=False):
    """A service and its pods (keys) that are here. `cores`: what they want together within the next minutes; None: nothing is foretold, and
    `why_none` says why. `error`: by how much earlier forecasts were wrong, as a share; None: there were none."""

    service: str
    pods: tuple[str, ...]
    cores: float | None = None
    error: float | None = None
    why_none: str = ""
