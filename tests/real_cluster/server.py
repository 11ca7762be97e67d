"""A real API server: etcd and kube-apiserver, with TLS, RBAC and service account tokens, on ports of loopback that were free.

    with ApiServer(directory) as server:
        server.apply(OBJECT)
        ... server.kubectl("get", "pods") ...

Both end with `with`, and with the process that began it, kill -9 included. There are no controllers and no kubelet: what these would say is
the tests' to say.
"""

from __future__ import annotations

import json
import secrets
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self, TypeVar

import trustme

from real_cluster.programs import HOME

HOST = "127.0.0.1"
_READY = 300.0  # seconds, on a machine with other work
# With the parent's end comes SIGKILL.
TIED = ("setpriv", "--pdeathsig", "KILL")
# Who may show which token: user, its id, its groups.
_USERS = {"admin": 'admin,admin,"system:masters"', "kubelet": 'system:node:worker-1,kubelet,"system:nodes"'}
T = TypeVar("T")


class ApiServer:
    """`directory`: where all that it keeps is written."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        store, peer, self._port = _free_ports(3)
        self._store, self._peer = f"http://{HOST}:{store}", f"http://{HOST}:{peer}"
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        self._write_trust()
        try:
            self._start("etcd", *self._etcd())
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for name in list(self._running):
            self._kill(name)

    def start(self) -> None:
        """Start the API server and wait until it answers; it is started once already."""
        self._start("kube-apiserver", *self._kube_apiserver())
        self.wait(lambda: self.kubectl("get", "--raw", "/readyz").returncode == 0, "the API server to be ready")

    def stop(self) -> None:
        """Kill the API server; what it knows stays in etcd."""
        self._kill("kube-apiserver")

    def wait(self, probe: Callable[[], T], what: str, seconds: float = _READY, more: Callable[[], str] = str) -> T:
        """Wait until a probe gives something true; `more` is said when it does not. A server that has ended is told at once."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            for name, process in self._running.items():
                assert process.poll() is None, f"{name} has ended:\n{self._log(name).read_text(errors='replace')[-4000:]}"
            if found := probe():
                return found
            time.sleep(0.25)
        raise AssertionError(f"waited {seconds:.0f} s for {what}\n{more()}")

    def kubectl(self, *words: str, told: str | None = None, user: str = "admin") -> subprocess.CompletedProcess[str]:
        """Have kubectl ask as a user, whatever comes of it; `told`: its standard input."""
        command = ["kubectl", f"--kubeconfig={self.kubeconfig(user)}", f"--cache-dir={self.directory}/cache", *words]
        return subprocess.run(command, input=told, capture_output=True, text=True, timeout=120, check=False)

    def done(self, *words: str, told: str | None = None) -> str:
        """Have kubectl do something that must come off; return what it says."""
        answer = self.kubectl(*words, told=told)
        assert answer.returncode == 0, f"kubectl {' '.join(words)}: {answer.stderr}"
        return answer.stdout

    def apply(self, *objects: dict[str, Any]) -> None:
        """Have objects made or changed."""
        self.done("apply", "-f", "-", told=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))

    def get(self, *words: str) -> dict[str, Any]:
        """Return an object, or a list of them."""
        return json.loads(self.done("get", *words, "-o", "json"))

    def kubeconfig(self, user: str) -> Path:
        return self.directory / f"{user}.kubeconfig"

    def give_token(self, user: str, token: str) -> None:
        """Write a user's token, and a kubeconfig that names the file with it."""
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "c",
            "clusters": [
                {"name": "c", "cluster": {"server": f"https://{HOST}:{self._port}", "certificate-authority": f"{self.directory}/ca.crt"}}
            ],
            "users": [{"name": user, "user": {"tokenFile": str(self._write(f"{user}.token", token.encode()))}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": user}}],
        }
        self._write(self.kubeconfig(user).name, json.dumps(document).encode())  # JSON is YAML

    def token(self, user: str) -> str:
        return (self.directory / f"{user}.token").read_text()

    def _write_trust(self) -> None:
        authority = trustme.CA()
        certificate = authority.issue_cert(HOST)
        self._write("ca.crt", authority.cert_pem.bytes())
        self._write("server.crt", b"".join(each.bytes() for each in certificate.cert_chain_pems))
        self._write("server.key", certificate.private_key_pem.bytes())
        tokens = {user: secrets.token_hex(16) for user in _USERS}
        self._write("tokens.csv", "".join(f"{tokens[user]},{who}\n" for user, who in _USERS.items()).encode())
        for user, token in tokens.items():
            self.give_token(user, token)

    def _write(self, name: str, data: bytes) -> Path:
        """Write a file as a mounted secret is: another one takes its place."""
        path = self.directory / name
        fresh = path.with_suffix(".new")
        fresh.write_bytes(data)
        return fresh.rename(path)

    def _etcd(self) -> list[str]:
        return [
            *(f"--data-dir={self.directory}/etcd", f"--listen-client-urls={self._store}", f"--advertise-client-urls={self._store}"),
            *(f"--listen-peer-urls={self._peer}", f"--initial-advertise-peer-urls={self._peer}", f"--initial-cluster=default={self._peer}"),
        ]

    def _kube_apiserver(self) -> list[str]:
        key = f"{self.directory}/server.key"
        return [
            *(f"--etcd-servers={self._store}", f"--bind-address={HOST}", f"--secure-port={self._port}", f"--cert-dir={self.directory}"),
            *(
                f"--tls-cert-file={self.directory}/server.crt",
                f"--tls-private-key-file={key}",
                "--endpoint-reconciler-type=none",
                f"--advertise-address={HOST}",
            ),
            "--enable-admission-plugins=NodeRestriction",
            *(
                f"--token-auth-file={self.directory}/tokens.csv",
                "--authorization-mode=Node,RBAC",
                "--service-cluster-ip-range=10.96.0.0/24",
            ),
            *("--service-account-issuer=https://kubernetes.default.svc", f"--service-account-key-file={key}"),
            f"--service-account-signing-key-file={key}",
        ]

    def _log(self, name: str) -> Path:
        return self.directory / f"{name}.log"

    def _start(self, name: str, *arguments: str) -> None:
        with self._log(name).open("ab") as log:
            command = [*TIED, str(HOME / name), *arguments]
            self._running[name] = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def _kill(self, name: str) -> None:
        process = self._running.pop(name)
        process.kill()
        process.wait()


def _free_ports(count: int) -> list[int]:
    """Return ports that were free a moment ago."""
    sockets = [socket.create_server((HOST, 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports
