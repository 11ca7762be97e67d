"""What runs beside the cycle and is shown with it: a recording, another configuration that is only decided, the fast path."""

from __future__ import annotations

from msgspec import Struct

from qosmanager.model.fast_path import FastPathUse
from qosmanager.views.recording import RecordingView
from qosmanager.views.shadow import ShadowView


class Beside(Struct, frozen=True, kw_only=True):
    """None: there is none."""

    recording: RecordingView | None = None
    shadow: ShadowView | None = None
    fast_path: FastPathUse | None = None


NOTHING = Beside()
