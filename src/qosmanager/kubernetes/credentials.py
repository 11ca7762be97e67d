"""Who asks and whom to trust, read again when it has changed: the bearer token and the TLS context.

In: an `Access`. Out: a token at most 60 s old, and a context made anew when a file that it was made from is another one. What cannot be
read any more is used as it was; what could never be read is ApiUnreachable. No text holds a secret.
"""

from __future__ import annotations

import os
import ssl
import threading
from pathlib import Path

from qosmanager.kubernetes.access import Access, AccessError, Inline, KubeconfigToken, Material
from qosmanager.kubernetes.api import ApiUnreachable
from qosmanager.ports import Clock

TOKEN_LIFE = 60.0  # seconds
LONGEST_TOKEN = 1 << 16  # bytes

_Mark = tuple[int, int, int] | None


class Token:
    """The bearer token, from a file that somebody else rotates."""

    def __init__(self, material: Material | KubeconfigToken | None, clock: Clock) -> None:
        self._material = material
        self._clock = clock
        self._known = ""
        self._read_at = 0.0
        self._lock = threading.Lock()

    def current(self) -> str:
        """Return the token; "": there is none to show."""
        with self._lock:
            if not self._known or self._clock.monotonic() - self._read_at >= TOKEN_LIFE:
                self._renew()
            return self._known

    def again(self) -> bool:
        """Read it anew, for it was refused; tell whether it is another one now."""
        with self._lock:
            before = self._known
            self._renew()
            return self._known != before

    def _renew(self) -> None:
        if self._material is None:
            return
        try:
            self._known = _token(self._material)
        except (OSError, AccessError, ApiUnreachable) as error:
            if not self._known:
                raise ApiUnreachable(f"the token cannot be read: {error}") from None
        self._read_at = self._clock.monotonic()


def _token(material: Material | KubeconfigToken) -> str:
    """Read a token. Raises OSError, AccessError and ApiUnreachable."""
    match material:
        case KubeconfigToken():
            return _token(material.current())
        case Inline(data):
            return _clean(data, "the kubeconfig's token")
        case path:
            with open(path, "rb") as file:
                return _clean(file.read(LONGEST_TOKEN + 1), str(path))


def _clean(data: bytes, where: str) -> str:
    text = data.strip().decode("latin-1")
    # What is in no header is in no token; the library's own refusal would show it.
    if not text or len(data) > LONGEST_TOKEN or not all("!" <= character <= "~" for character in text):
        raise ApiUnreachable(f"{where} holds no token")
    return text


class Trust:
    """The TLS context. Certificates are always looked at, unless the access itself says otherwise."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._files = [each for each in (access.authorities, access.certificate, access.key) if isinstance(each, Path)]
        self._marks: list[_Mark] | None = None
        self._context: ssl.SSLContext | None = None
        self._lock = threading.Lock()

    def context(self) -> ssl.SSLContext:
        """Return the context to connect with; the same object until a file has changed. Raises ApiUnreachable."""
        with self._lock:
            marks = [_mark(path) for path in self._files]
            if self._context is None or marks != self._marks:
                try:
                    self._context, self._marks = self._made(), marks
                except (OSError, ValueError) as error:  # an SSLError is an OSError
                    if self._context is None:
                        raise ApiUnreachable(f"the certificates cannot be used: {_reason(error, self._files)}") from None
            return self._context

    def _made(self) -> ssl.SSLContext:
        access = self._access
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if not access.verified:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        else:
            match access.authorities:
                case None:
                    context.load_default_certs(ssl.Purpose.SERVER_AUTH)
                case Inline(data):
                    context.load_verify_locations(cadata=data.decode("ascii"))
                case path:
                    context.load_verify_locations(cafile=path)
        if access.certificate is not None and access.key is not None:
            with _File(access.certificate) as certificate, _File(access.key) as key:
                context.load_cert_chain(certificate, key, password=_no_password)
        return context


class _File:
    """The path of something that a library reads by path only; what is inline goes through memory, never to a disk."""

    def __init__(self, material: Material) -> None:
        self._material = material
        self._descriptor: int | None = None

    def __enter__(self) -> str:
        if isinstance(self._material, Path):
            return str(self._material)
        self._descriptor = os.memfd_create("qosmanager", os.MFD_CLOEXEC)
        os.write(self._descriptor, self._material.data)
        return f"/proc/self/fd/{self._descriptor}"

    def __exit__(self, *_: object) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)


def _no_password() -> str:
    """Else the library would ask on the terminal."""
    raise ValueError("the client's key has a password; one without is needed")


def _mark(path: Path) -> _Mark:
    try:
        status = path.stat()  # through links: a mounted secret is swapped by its link
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def _reason(error: OSError | ValueError, files: list[Path]) -> str:
    absent = [str(path) for path in files if not path.exists()]
    return f"no {absent[0]}" if absent else str(error)
