"""What runs beside the cycle and is shown with it: a recording, another configuration that is only decided, the fast path, the cluster."""

from __future__ import annotations

from msgspec import Struct

from qosmanager.model.actions import Knob
from qosmanager.model.fast_path import FastPathUse
from qosmanager.views.cluster import ClusterView
from qosmanager.views.recording import RecordingView
from qosmanager.views.shadow import ShadowView


class Beside(Struct, frozen=True, kw_only=True):
    """None: there is none."""

    recording: RecordingView | None = None
    shadow: ShadowView | None = None
    fast_path: FastPathUse | None = None
    cluster: ClusterView | None = None
    isolation: tuple[Knob, ...] = ()


NOTHING = Beside()
