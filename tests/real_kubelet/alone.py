"""A test run to be killed: `python -m real_kubelet.alone FILE` runs a pod, writes into FILE where, and waits."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from real_groups import RealGroups
from real_kubelet.node import real_node
from real_kubelet.pods import OBEYS_TERM, container_pod

with real_node(RealGroups()) as node:
    node.run(container_pod("job", OBEYS_TERM))
    file = Path(sys.argv[1])
    file.with_suffix(".new").write_text(f"{node.runtime.home} {node.groups.top}")
    file.with_suffix(".new").rename(file)
    signal.pause()
