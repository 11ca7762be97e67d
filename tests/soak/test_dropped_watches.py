"""A thousand watches that are dropped, one after the other: what the client holds does not grow. QOSM_WATCHES for another number."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import dropped_watches
from loopback_api.objects import pod
from loopback_api.server import LoopbackApi

pytestmark = pytest.mark.soak
WATCHES = int(os.environ.get("QOSM_WATCHES", "1000"))
PODS = 110
WARM = 2  # hundreds
MOST_GROWTH = 512  # KiB


@pytest.mark.timeout(60 + WATCHES // 5)
@pytest.mark.parametrize("how", ["cut", "dropped"])
def test_neither_memory_nor_descriptors_grow(tmp_path, how):
    with LoopbackApi() as server:
        for number in range(PODS):
            server.store.create("pods", pod(f"p-{number}", annotations={"pad": "x" * 8000}))
        command = [sys.executable, dropped_watches.__file__, str(server.write_kubeconfig(tmp_path / "config")), str(WATCHES)]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2] / "src")}
        ) as client:
            number = 0
            while client.poll() is None:
                number += 1
                if how == "cut":
                    server.faults.cut_next_event = True
                    changed = server.store.get("pods", "batch", f"p-{number % PODS}")
                    changed["metadata"]["labels"] = {"number": str(number)}
                    server.store.replace("pods", changed)
                elif any("watch" in request.query for request in server.requests[:PODS]):
                    # From the first watch on: on a slow machine the list that comes before it would never be heard to its end.
                    server.drop_connections()
                time.sleep(0.005)
            told = [tuple(map(int, line.split())) for line in client.stdout.read().splitlines()]
        assert client.returncode == 0
    print(how, told)
    watches, rss, descriptors, pods = zip(*told, strict=True)
    assert watches[-1] == WATCHES
    assert set(pods[WARM:]) == {PODS}
    assert len(set(descriptors[WARM:])) == 1
    assert rss[-1] - rss[WARM - 1] <= MOST_GROWTH
