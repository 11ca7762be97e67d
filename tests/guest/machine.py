"""A guest with a kernel of its own, cgroup v2 alone, on which tests of this project run: `boot` starts it and yields each result.

It needs a kernel, qemu and busybox, which `prepare.py` (make v2-image) puts in place; `obstacle()` says what is missing. The guest is
emulated in software where the machine has no /dev/kvm that works: some 30 times slower, so bounds inside are generous.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib.metadata import Distribution, distribution
from pathlib import Path
from typing import BinaryIO, NamedTuple

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from guest.archive import Archive

PROJECT = Path(__file__).resolve().parents[2]
HOME = PROJECT / "build" / "v2-kernel"
KERNEL = HOME / "vmlinuz"
REASON = HOME / "why-not"
QEMU = "qemu-system-x86_64"
USER_MODE_LINUX = HOME / "linux.uml"
BUSYBOX = Path("/bin/busybox")
# What the standard library has and no test needs.
LEAVE_OUT = frozenset(
    [
        "test",
        "tests",
        "idlelib",
        "tkinter",
        "turtledemo",
        "ensurepip",
        "lib2to3",
        "pydoc_data",
        "distutils",
        "site-packages",
        "dist-packages",
        "venv",
        "sqlite3",
        "dbm",
        "curses",
        "xmlrpc",
    ]
)
INIT = """\
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/shm
for place in /tmp /run /dev/shm; do mount -t tmpfs tmpfs $place; done
mount -t cgroup2 none /sys/fs/cgroup
ip link set lo up
echo "init at $(cut -d" " -f1 /proc/uptime)"
cd /project
export HOME=/tmp PYTHONPATH=/packages:/project/src:/project/tests PYTHONDONTWRITEBYTECODE=1 PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 {environment}
{python} {command}
poweroff -f
"""


def obstacle() -> str | None:
    """Why no guest can be started here."""
    if not KERNEL.exists():
        return REASON.read_text().strip() if REASON.exists() else f"{KERNEL} is not there: run `make v2-image`"
    if shutil.which(QEMU) is None:
        return f"{QEMU} is not installed: run `make v2-image` as root"
    return None if BUSYBOX.exists() else f"{BUSYBOX} is not installed: run `make v2-image` as root"


def user_mode_obstacle() -> str | None:
    """Why no User-mode Linux can be started here."""
    if not USER_MODE_LINUX.exists():
        return REASON.read_text().strip() if REASON.exists() else f"{USER_MODE_LINUX} is not there: run `make soak-user-mode-linux`"
    return None if BUSYBOX.exists() else f"{BUSYBOX} is not installed: run `make v2-image` as root"


class Guest(NamedTuple):
    """What it is given beside this machine's Python and packages: a cpio archive with /init; memory and an empty disk (0: none) in MiB."""

    content: bytes
    memory: int
    disk: int


def boot(tests: list[str], environment: dict[str, str], log: Path, seconds: float) -> Iterator[dict[str, str]]:
    """Run tests (paths below tests/, or node ids) in a guest; yield their results as they come.

    A result has "test", "outcome" (passed, failed, skipped), "text" and "seconds". What the console said is left in `log`.
    """
    yield from emulated(Guest(_tests(tests, environment), memory=1024, disk=256), log, seconds)


def boot_user_mode(tests: list[str], environment: dict[str, str], log: Path, seconds: float) -> Iterator[dict[str, str]]:
    """Run tests as `boot` does, in User-mode Linux: at full speed, but one CPU, no cpuset, no PSI."""
    yield from user_mode(Guest(_tests(tests, environment), memory=768, disk=0), log, seconds)


def emulated(guest: Guest, log: Path, seconds: float) -> Iterator[dict[str, str]]:
    """Start a guest on QEMU; yield each line of JSON that it writes to its second serial port (/dev/ttyS1), until it ends or is ended."""
    # A virtual machine often has a /dev/kvm on which no guest starts: software then. One thread, for with two, a processor can be
    # caught in the middle of an instruction that the kernel just replaces.
    accelerators = ["kvm"] * os.access("/dev/kvm", os.R_OK | os.W_OK) + ["tcg,thread=single"]
    for accelerator in accelerators:
        told = False
        for result in _run(partial(_qemu, accelerator), guest, log, seconds):
            told = True
            yield result
        if told:
            return


def user_mode(guest: Guest, log: Path, seconds: float) -> Iterator[dict[str, str]]:
    """Start a guest as `emulated` does, on User-mode Linux."""
    yield from _run(_user_mode, guest, log, seconds)


class _Ports(NamedTuple):
    """Where the guest's console and results go, and its disk, which is empty."""

    console: BinaryIO
    results: BinaryIO
    disk: BinaryIO


def _qemu(accelerator: str, guest: Guest, image: Path, ports: _Ports) -> list[str]:
    return [
        *(QEMU, "-M", "q35", "-accel", accelerator, "-cpu", "max", "-smp", "2", "-m", str(guest.memory), "-display", "none"),
        *("-no-reboot", "-nic", "none", "-serial", f"file:{ports.console.name}", "-serial", f"file:{ports.results.name}"),
        *("-drive", f"file={ports.disk.name},if=none,id=disk,format=raw", "-device", "nvme,serial=disk,drive=disk"),
        *("-kernel", str(KERNEL), "-initrd", str(image), "-append", "console=ttyS0 quiet panic=-1 psi=1"),
    ]


def _user_mode(guest: Guest, image: Path, ports: _Ports) -> list[str]:
    disk = [f"ubd0={ports.disk.name}"] if guest.disk else []
    root = [f"initrd={image}", "root=/dev/ram0", "rdinit=/init"]
    return user_mode_command([f"mem={guest.memory}M", *disk, *root], ports.console, ports.results)


def user_mode_command(words: list[str], console: BinaryIO, results: BinaryIO) -> list[str]:
    """Return the command line of a User-mode Linux with these words, for `results_of`."""
    where = Path(console.name).parent
    ports = ["con=null", f"con0=null,fd:{console.fileno()}", f"ssl1=null,fd:{results.fileno()}", f"uml_dir={where}/"]
    return [str(USER_MODE_LINUX), *words, "quiet", "panic=-1", *ports]


def _run(command: Callable[[Guest, Path, _Ports], list[str]], guest: Guest, log: Path, seconds: float) -> Iterator[dict[str, str]]:
    image, disk = log.with_suffix(".cpio"), log.with_suffix(".disk")
    image.write_bytes(_base() + guest.content)
    try:
        with disk.open("wb") as platter:
            platter.truncate(guest.disk << 20)
            yield from results_of(lambda console, port: command(guest, image, _Ports(console, port, platter)), log, seconds)
    finally:
        image.unlink()
        disk.unlink()


def results_of(command: Callable[[BinaryIO, BinaryIO], list[str]], log: Path, seconds: float) -> Iterator[dict[str, str]]:
    """Run a machine whose command line is made of where its console (`log`) and its results go; yield those until it ends or is ended."""
    results = log.with_suffix(".results")
    quiet = subprocess.DEVNULL
    with log.open("wb") as console, results.open("wb") as port, results.open() as lines:
        passed = [console.fileno(), port.fileno()]
        environment = {**os.environ, "TMPDIR": str(log.parent)}
        words = command(console, port)
        machine = subprocess.Popen(words, stdin=quiet, stdout=quiet, stderr=quiet, pass_fds=passed, env=environment, start_new_session=True)
        try:
            yield from _results(lines, machine, time.monotonic() + seconds)
        finally:
            with contextlib.suppress(ProcessLookupError):
                # User-mode Linux is many processes, all in the session of the first.
                os.killpg(machine.pid, signal.SIGKILL)
            machine.wait()


def _results(lines, machine: subprocess.Popen[bytes], deadline: float) -> Iterator[dict[str, str]]:
    rest = ""
    while time.monotonic() < deadline:
        ended = machine.poll() is not None
        rest += lines.read()
        *whole, rest = rest.split("\n")
        for line in whole:
            if line.startswith("{"):
                yield json.loads(line)
        if ended:
            return
        time.sleep(0.2)


def _base() -> bytes:
    """Return what changes with the machine and its packages only; kept, for it takes half a minute to compile."""
    packages = distributions("qosmanager", "pytest")
    versions = [(package.name, package.version) for package in packages]
    recipe = Path(__file__).read_bytes() + Path(__file__).with_name("archive.py").read_bytes()
    key = hashlib.sha256(recipe + repr((sys.version, _python(), versions)).encode()).hexdigest()[:16]
    kept = HOME / f"base-{key}.cpio"
    if not kept.exists():
        for old in HOME.glob("base-*.cpio"):
            old.unlink()
        fresh = kept.with_suffix(f".{os.getpid()}")
        fresh.write_bytes(_system(packages))
        fresh.rename(kept)
    return kept.read_bytes()


def _python() -> Path:
    return Path(sys._base_executable).resolve()


def _system(packages: list[Distribution]) -> bytes:
    """Pack busybox, this Python with its libraries where they are on this machine, and the packages."""
    archive = Archive()
    for name in ("proc", "sys", "dev", "tmp", "run", "root"):
        archive.directory(name)
    archive.copy(BUSYBOX, "bin/busybox")
    archive.file("etc/passwd", b"root:x:0:0:root:/root:/bin/sh\n")
    archive.file("etc/hosts", b"127.0.0.1 localhost\n")
    archive.copy(_python(), str(_python()))
    library = Path(sysconfig.get_path("stdlib"))
    archive.tree(library, str(library), LEAVE_OUT | {f"config-{sys.version_info[0]}.{sys.version_info[1]}-x86_64-linux-gnu"})
    native = [_python(), *library.glob("lib-dynload/*.so")]
    for package in packages:
        for path, name in files_of(package):
            archive.add(path, f"packages/{name}")
            native += [path] if path.suffix == ".so" else []
    for needed in sorted(_libraries(native)):
        archive.copy(needed, str(needed))
    return archive.data()


def distributions(*names: str) -> list[Distribution]:
    """Return these installed packages and all that they need, but not this project itself."""
    found = {name: distribution(name) for name in names}
    todo = list(found.values())
    for package in todo:
        for requirement in map(Requirement, package.requires or ()):
            name = canonicalize_name(requirement.name)
            if name not in found and (requirement.marker is None or requirement.marker.evaluate({"extra": ""})):
                found[name] = distribution(name)
                todo.append(found[name])
    return [package for name, package in sorted(found.items()) if name != "qosmanager"]


def files_of(package: Distribution) -> Iterator[tuple[Path, str]]:
    """Yield what Python imports of an installed package: where it is, and its name below a directory of packages."""
    for file in package.files or ():
        path = Path(str(file.locate()))
        if ".." not in file.parts and path.suffix != ".pyc" and ".dist-info" not in file.parts[0]:
            yield path, str(file)


def _libraries(native: list[Path]) -> set[Path]:
    """Return the shared libraries that the dynamic linker would load for these."""
    listed = subprocess.run(["ldd", *map(str, native)], capture_output=True, text=True, check=False).stdout
    return {Path(word) for line in listed.splitlines() for word in line.split() if word.startswith("/") and not word.endswith(":")}


def _tests(tests: list[str], environment: dict[str, str]) -> bytes:
    archive = project(f"-m guest.inside {' '.join(f'tests/{test}' for test in tests)}", environment)
    return archive.data()


def project(command: str, environment: dict[str, str]) -> Archive:
    """Return what a guest needs to run Python with these words after it, this project being at hand."""
    archive = Archive()
    archive.tree(PROJECT / "src", "project/src")
    # Without tests/conftest.py: hypothesis takes long to load there, and no test of the kernel needs it.
    archive.tree(PROJECT / "tests", "project/tests", frozenset({"conftest.py", "unit", "property", "cases"}))
    archive.file("project/pytest.ini", b"[pytest]\naddopts = --import-mode=importlib\nfilterwarnings = error\n")
    variables = " ".join(f"{name}={value}" for name, value in environment.items())
    archive.file("init", INIT.format(environment=variables, python=_python(), command=command).encode(), 0o755)
    return archive
