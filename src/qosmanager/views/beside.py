"""What runs beside the cycle and is shown with it: a recording, another configuration that is only decided."""

from __future__ import annotations

from msgspec import Struct

from qosmanager.views.recording import RecordingView
from qosmanager.views.shadow import ShadowView


class Beside(Struct, frozen=True, kw_only=True):
    """None: there is none."""

    recording: RecordingView | None = None
    shadow: ShadowView | None = None


NOTHING = Beside()
