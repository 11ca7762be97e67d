"""How the API server is reached and trusted: the service account's files in a pod, or a kubeconfig.

In: a directory or a file. Out: `Access`, or AccessError with one line that says what, where and what is allowed. Whatever may be rotated
(token, authorities, client certificate) stays a file that is read again, the kubeconfig for its token; only certificates that it holds
inline are kept.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

import msgspec
from msgspec import UNSET, Struct, UnsetType

from qosmanager.documents.files import read_text
from qosmanager.documents.problem import DocumentError
from qosmanager.documents.tree import foreign

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
HTTPS_PORT = 443

T = TypeVar("T")


class AccessError(Exception):
    """The way to the API server is not told, or told wrongly; the text says where and what is allowed."""


class Inline(Struct, frozen=True):
    """Something that stands in the configuration itself. Never shown."""

    data: bytes

    def __repr__(self) -> str:
        return "Inline(...)"


Material = Path | Inline


class KubeconfigToken(Struct, frozen=True):
    """The token of one of a kubeconfig's users, whichever context is the current one later: it may be of another server."""

    path: Path
    user: str

    def current(self) -> Material:
        """Read the kubeconfig for what it holds or names now. Raises AccessError."""
        user = _named(_users(_read(self.path)), self.user, f"{self.path}: user")
        if not (user.token_file or user.token):
            raise AccessError(f"{self.path}: user {self.user!r} has no token any more")
        return self.path.parent / user.token_file if user.token_file else Inline(user.token.encode())


class Server(Struct, frozen=True):
    """Where: host, port, and what stands before every path ("" or "/k8s/clusters/c-1"). `name`: what its certificate must say."""

    host: str
    port: int
    prefix: str = ""
    name: str = ""

    @classmethod
    def parse(cls, url: str, name: str = "") -> Server:
        """Take an address apart. Raises AccessError for anything but https."""
        try:
            parts = urlsplit(url)
            port = parts.port or HTTPS_PORT
        except ValueError as error:
            raise AccessError(f"{url!r} is no address: {error}") from None
        if parts.scheme != "https" or not parts.hostname or parts.username is not None or parts.query or parts.fragment:
            raise AccessError(f"{url!r} is not allowed; https://HOST[:PORT] is")
        return cls(parts.hostname, port, parts.path.rstrip("/"), name or parts.hostname)

    @property
    def url(self) -> str:
        """The address, for people."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"https://{host}:{self.port}{self.prefix}"


class Access(Struct, frozen=True, kw_only=True):
    """A server, whom to trust that it is it (None: the system's authorities), and who asks. `verified` False: the certificate is not
    looked at, which only --kubelet-insecure-tls can ask for."""

    server: Server
    authorities: Material | None = None
    token: Material | KubeconfigToken | None = None
    certificate: Material | None = None
    key: Material | None = None
    verified: bool = True


def in_cluster(environment: Mapping[str, str] = os.environ, directory: Path = SERVICE_ACCOUNT) -> Access:
    """Take what every pod is given. Raises AccessError where that is not there."""
    host, port = environment.get("KUBERNETES_SERVICE_HOST", ""), environment.get("KUBERNETES_SERVICE_PORT", str(HTTPS_PORT))
    token = directory / "token"
    if not host or not port.isdecimal() or not token.exists():
        missing = "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set" if not host or not port.isdecimal() else f"no {token}"
        raise AccessError(f"this is no pod with a service account ({missing}); --kubeconfig FILE names another way to the API server")
    return Access(server=Server(host, int(port), "", host), authorities=directory / "ca.crt", token=token)


class _Cluster(Struct, rename="kebab"):
    server: str = ""
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""


class _User(Struct, rename="kebab"):
    token: str = ""
    token_file: str = msgspec.field(default="", name="tokenFile")
    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    username: str = ""
    exec_plugin: object | UnsetType = msgspec.field(default=UNSET, name="exec")
    auth_provider: object | UnsetType = UNSET
    impersonate: str = msgspec.field(default="", name="as")


class _Context(Struct):
    cluster: str
    user: str = ""


class _NamedCluster(Struct):
    name: str
    cluster: _Cluster


class _NamedUser(Struct):
    name: str
    user: _User


class _NamedContext(Struct):
    name: str
    context: _Context


class _Kubeconfig(Struct, rename="kebab"):
    current_context: str = ""
    clusters: list[_NamedCluster] = []
    users: list[_NamedUser] = []
    contexts: list[_NamedContext] = []


def from_kubeconfig(path: Path) -> Access:
    """Take the current context of a kubeconfig. Raises AccessError."""
    config = _read(path)
    context = _named({entry.name: entry.context for entry in config.contexts}, config.current_context, f"{path}: current-context")
    cluster = _named({entry.name: entry.cluster for entry in config.clusters}, context.cluster, f"{path}: cluster")
    user = _named(_users(config), context.user, f"{path}: user") if context.user else _User()
    _refuse(path, cluster, user)
    try:
        server = Server.parse(cluster.server, cluster.tls_server_name)
    except AccessError as error:
        raise AccessError(f"{path}: server: {error}") from None
    access = Access(
        server=server,
        authorities=_material(path, cluster.certificate_authority_data, cluster.certificate_authority),
        token=KubeconfigToken(path, context.user) if user.token or user.token_file else None,
        certificate=_material(path, user.client_certificate_data, user.client_certificate),
        key=_material(path, user.client_key_data, user.client_key),
    )
    if (access.certificate is None) != (access.key is None):
        raise AccessError(f"{path}: a client certificate needs its key, and a key its certificate")
    return access


def _users(config: _Kubeconfig) -> dict[str, _User]:
    return {entry.name: entry.user for entry in config.users}


def _read(path: Path) -> _Kubeconfig:
    try:
        return msgspec.convert(foreign(read_text(path)), _Kubeconfig)
    except DocumentError as error:
        raise AccessError(str(error)) from None
    except (msgspec.ValidationError, RecursionError) as error:
        raise AccessError(f"{path}: is no kubeconfig: {error}") from None
    except ValueError as error:
        raise AccessError(f"{path}: {error}; a kubeconfig is needed") from None


def _named(known: dict[str, T], name: str, what: str) -> T:
    if name in known:
        return known[name]
    there = ", ".join(sorted(known)) or "there is none"
    raise AccessError(f"{what}: {name!r} is not allowed; one of these is: {there}")


def _refuse(path: Path, cluster: _Cluster, user: _User) -> None:
    """Refuse what would not be done as it is written."""
    if cluster.insecure_skip_tls_verify:
        raise AccessError(f"{path}: insecure-skip-tls-verify is not allowed; certificate-authority or certificate-authority-data is needed")
    if cluster.proxy_url:
        raise AccessError(f"{path}: proxy-url is not allowed; the server is asked directly")
    if user.exec_plugin is not UNSET or user.auth_provider is not UNSET:
        raise AccessError(
            f"{path}: exec and auth-provider are not allowed, no programs are run for a token; token, tokenFile or a client certificate is"
        )
    if user.username or user.impersonate:
        raise AccessError(f"{path}: username and impersonation are not allowed; token, tokenFile or a client certificate is")


def _material(path: Path, inline: str, file: str) -> Material | None:
    if not inline:
        return path.parent / file if file else None
    try:
        return Inline(base64.b64decode(inline, validate=True))
    except (binascii.Error, ValueError):
        raise AccessError(f"{path}: one of the fields that end in -data is not base64") from None
