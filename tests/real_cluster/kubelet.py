"""A real kubelet on a containerd of the tests' own, below their cgroup. Its files are where they always are: it is run in apart.sh.

    with Runtime(groups) as runtime, Kubelet(server, runtime, groups, NODE, {}) as kubelet:
        ... pods that share the node's network run ...

There is no CNI plugin, so that the node never calls itself ready, and no controller and no scheduler: pods are placed on the node by hand.
"""

from __future__ import annotations

import json
import ssl
import subprocess
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Self

import trustme

from real_cluster.programs import HOME, NODE_ADDRESS
from real_cluster.server import TIED, ApiServer
from real_groups import ROOT, RealGroups
from real_kubelet.keeper import v2_group
from real_kubelet.runtime import Runtime

CHECKPOINT = Path("/var/lib/kubelet/cpu_manager_state")
URL = f"https://{NODE_ADDRESS}:10250"
_HEALTH = "http://127.0.0.1:10248/healthz"


class Kubelet:
    """Runs from `with` on; the runtime's end ends its pods. `settings`: of its configuration, in place of ours."""

    def __init__(self, server: ApiServer, runtime: Runtime, groups: RealGroups, node: str, settings: dict[str, Any]) -> None:
        self._server, self._groups, self._node = server, groups, node
        self._settings = settings
        self._home = runtime.home / "kubelet"
        self._socket = runtime.socket
        self._process: subprocess.Popen[bytes] | None = None
        self.authority = self._home / "ca.crt"  # whom to trust that it is kubelet

    def __enter__(self) -> Self:
        self._home.mkdir()
        CHECKPOINT.unlink(missing_ok=True)  # with that of another policy it would not start
        for hierarchy in ROOT.iterdir():  # it wants its root in those too that the agent does not write
            (hierarchy / self._groups.top).mkdir(exist_ok=True)
        issuer = trustme.CA()
        certificate = issuer.issue_cert(NODE_ADDRESS)
        issuer.cert_pem.write_to_path(self.authority)
        certificate.private_key_pem.write_to_path(self._home / "kubelet.key")
        (self._home / "kubelet.crt").write_bytes(b"".join(each.bytes() for each in certificate.cert_chain_pems))
        (self._home / "kubelet.json").write_text(json.dumps(self._configuration() | self._settings))
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start it and wait until it says that it is healthy."""
        inside = ["sh", "-c", 'echo $$ >"$0" && exec "$@"', str(v2_group(self._groups.top) / "runtime" / "cgroup.procs")]
        command = [*inside, *TIED, str(HOME / "kubelet"), f"--config={self._home}/kubelet.json"]
        command += [f"--kubeconfig={self._server.kubeconfig('kubelet')}", f"--hostname-override={self._node}", f"--node-ip={NODE_ADDRESS}"]
        with (self._home / "kubelet.log").open("ab") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self._server.wait(self._is_healthy, "kubelet to be healthy", more=self.log)

    def stop(self) -> None:
        """Kill it; its pods go on."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def answers(self, token: str) -> int:
        """Return the HTTP status with which it answers whoever asks for its pods with this token."""
        asked = urllib.request.Request(f"{URL}/pods", headers={"Authorization": f"Bearer {token}"})
        try:
            with urllib.request.urlopen(asked, timeout=30, context=ssl.create_default_context(cafile=self.authority)) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            with error:
                return error.code

    def log(self) -> str:
        """Return the end of what it has said."""
        return (self._home / "kubelet.log").read_text(errors="replace")[-6000:]

    def _is_healthy(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, f"kubelet has ended:\n{self.log()}"
        try:
            with urllib.request.urlopen(_HEALTH, timeout=5):
                return self._server.kubectl("get", "node", self._node).returncode == 0
        except OSError:
            return False

    def _configuration(self) -> dict[str, Any]:
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "authentication": {"anonymous": {"enabled": False}, "webhook": {"enabled": True}},
            "authorization": {"mode": "Webhook"},
            "tlsCertFile": f"{self._home}/kubelet.crt",
            "tlsPrivateKeyFile": f"{self._home}/kubelet.key",
            "address": NODE_ADDRESS,
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{self._groups.top}",
            "failCgroupV1": False,
            "failSwapOn": False,
            "containerRuntimeEndpoint": f"unix://{self._socket}",
            "evictionHard": {"memory.available": "1%", "nodefs.available": "0%", "imagefs.available": "0%"},
            "makeIPTablesUtilChains": False,
            "volumePluginDir": f"{self._home}/volume-plugins",
            "resolvConf": "",
            "oomScoreAdj": 0,
        }
