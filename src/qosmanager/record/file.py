"""One file of a recording: a header, then blocks, each with its length and checksum, of one zstd stream (docs/record.md).

Writing only appends: what is on the disk stays as it is. Reading stops at the first block that is torn or damaged and says so; what lies
before it is whole.
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Literal
from zlib import crc32

import msgspec
from backports import zstd
from msgspec import Struct

MAGIC = b"QOSMREC\n"
FORMAT = 1
SUFFIX = ".qosrec"
_PREFIX = struct.Struct("<8sHHI")  # magic, format, length of the header, its checksum
_BLOCK = struct.Struct("<II")  # length of what follows, checksum of both; length 0 ends the file
_LENGTH = struct.Struct("<I")
_LARGEST_HEADER = 4096
_LARGEST_BLOCK = 16 << 20  # bytes, compressed
_LARGEST_MESSAGE = 64 << 20  # bytes; a block unpacks to at most as much
_LEVEL = 1  # readings are noise: higher ones take longer and find no more
_WINDOW = 20  # 1 MiB of the past to find repetitions in; bounds the memory of both sides


class NotARecordingError(Exception):
    """This file cannot be read as a recording at all; the text says why, and what can be."""


class Header(Struct, frozen=True, kw_only=True):
    """Who wrote the file, when it was begun (epoch seconds), and by which rules its cycles were decided (engine/step.py); the first did not
    say."""

    version: str
    begun: float
    rules: int = 1


class Damage(Struct, frozen=True):
    """Where a file stops being readable, in bytes, and why."""

    file: str
    offset: int
    what: str


class FileWriter:
    """Appends messages to a new file. Every method raises OSError; what was appended before stays readable."""

    def __init__(self, path: Path, header: Header) -> None:
        self.path = path
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        self._descriptor = os.open(path, flags, 0o600)
        self._compressor = zstd.ZstdCompressor(
            options={zstd.CompressionParameter.compression_level: _LEVEL, zstd.CompressionParameter.window_log: _WINDOW}
        )
        self._waiting = bytearray()
        self.size = 0
        text = msgspec.json.encode(header)
        self._append(_PREFIX.pack(MAGIC, FORMAT, len(text), crc32(text)) + text)

    def add(self, message: bytes) -> None:
        """Take in a message; it is on the disk after the next `flush`."""
        self._waiting += self._compressor.compress(_LENGTH.pack(len(message)) + message)

    def flush(self) -> None:
        """Hand everything taken in to the kernel: from now on a kill loses none of it."""
        self._write_block(zstd.ZstdCompressor.FLUSH_BLOCK)

    def sync(self) -> None:
        """Wait until what was flushed is on the disk: from now on a power cut loses none of it."""
        os.fdatasync(self._descriptor)

    @property
    def is_there(self) -> bool:
        """Whether the file still has its name: one that was removed takes writes as before, for nothing."""
        return os.fstat(self._descriptor).st_nlink > 0

    def close(self) -> None:
        """End the file as whole."""
        try:
            self._write_block(zstd.ZstdCompressor.FLUSH_FRAME)
            self._append(_framed(b""))
            self.sync()
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Let the file go as it is."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def _write_block(self, mode: Literal[1, 2]) -> None:
        self._waiting += self._compressor.flush(mode)
        if self._waiting:
            self._append(_framed(bytes(self._waiting)))
            self._waiting.clear()

    def _append(self, data: bytes) -> None:
        written = os.write(self._descriptor, data)
        if written != len(data):  # the disk is full: leave no torn block behind
            os.ftruncate(self._descriptor, self.size)
            raise OSError(28, os.strerror(28))
        self.size += written


def _framed(payload: bytes) -> bytes:
    length = _LENGTH.pack(len(payload))
    return length + _LENGTH.pack(crc32(payload, crc32(length))) + payload


def _regular(path: str, flags: int) -> int:
    """Open a regular file. NotARecordingError for any other: a pipe may be waited for without an end, a device may have none."""
    descriptor = os.open(path, flags | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise NotARecordingError(f"{path}: this is no recording of qosmanager: no regular file")
    return descriptor


class FileReader:
    """One file from its beginning. After `messages` has ended, `damage` says whether it ended too early, and `closed` whether its writer
    ended it; a file that is neither is still being written, or its writer was killed between two blocks."""

    def __init__(self, path: Path) -> None:
        """Raises OSError, NotARecordingError."""
        self.path = path
        self.damage: Damage | None = None
        self.closed = False
        self.size = 0
        self.blocks = 0
        self.offset = 0
        with open(path, "rb", opener=_regular) as file:
            self.header = self._read_header(file)
            self._begin = file.tell()

    def messages(self) -> Iterator[bytes]:
        """Yield the messages, as far as the file is whole. Raises OSError."""
        self.damage, self.closed, self.blocks = None, False, 0
        unpacked = zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: _WINDOW})
        with open(self.path, "rb", opener=_regular) as file:
            file.seek(self._begin)
            self.size = os.fstat(file.fileno()).st_size
            for offset, payload in self._payloads(file):
                try:
                    data = unpacked.decompress(payload, _LARGEST_MESSAGE)
                    found = list(_split(data))
                except (zstd.ZstdError, EOFError, ValueError) as error:
                    self.damage = Damage(str(self.path), offset, f"a block cannot be unpacked ({error})")
                    return
                self.blocks += 1
                yield from found

    def spoil(self, what: str) -> None:
        """Say that the content cannot be understood from here on."""
        self.damage = Damage(str(self.path), self.offset, what)

    def _read_header(self, file: BinaryIO) -> Header:
        prefix = file.read(_PREFIX.size)
        if len(prefix) < _PREFIX.size or not prefix.startswith(MAGIC):
            raise NotARecordingError(f"{self.path}: this is no recording of qosmanager")
        _, number, length, checksum = _PREFIX.unpack(prefix)
        if number != FORMAT:
            raise NotARecordingError(f"{self.path}: this is a recording of format {number}; this version reads format {FORMAT}")
        text = file.read(min(length, _LARGEST_HEADER))
        if length > _LARGEST_HEADER or crc32(text) != checksum:
            raise NotARecordingError(f"{self.path}: the beginning of this recording is damaged, so that nothing of it can be read")
        try:
            return msgspec.json.decode(text, type=Header)
        except msgspec.DecodeError as error:
            raise NotARecordingError(f"{self.path}: the beginning of this recording cannot be understood: {error}") from None

    def _payloads(self, file: BinaryIO) -> Iterator[tuple[int, bytes]]:
        while True:
            self.offset = offset = file.tell()
            head = file.read(_BLOCK.size)
            if not head:
                return
            length, checksum = _BLOCK.unpack(head) if len(head) == _BLOCK.size else (0, 0)
            payload = file.read(length) if 0 < length <= _LARGEST_BLOCK else b""
            if len(head) < _BLOCK.size or (length <= _LARGEST_BLOCK and len(payload) < length):
                self.damage = Damage(str(self.path), offset, "the file ends in the middle of a block: its writer was stopped there")
                return
            if length > _LARGEST_BLOCK or crc32(payload, crc32(head[:4])) != checksum:
                self.damage = Damage(str(self.path), offset, "the checksum of a block is wrong")
                return
            if not length:
                self.closed = True
                return
            yield offset, payload


def _split(data: bytes) -> Iterator[bytes]:
    """Yield the messages of a block: each ends where its writer flushed, so a block holds whole ones."""
    place = 0
    while place < len(data):
        if place + _LENGTH.size > len(data):
            raise ValueError("a message is cut off")
        (length,) = _LENGTH.unpack_from(data, place)
        place += _LENGTH.size
        if length > len(data) - place:
            raise ValueError("a message is cut off")
        yield data[place : place + length]
        place += length
