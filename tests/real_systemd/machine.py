"""A machine with a real systemd: Debian's packages on a disk of its own, this project installed in /opt, on User-mode Linux.

`boot` starts it; `obstacle()` says what is missing (make soak-systemd puts it in place). One CPU, cgroup v2 alone, no PSI, no cpuset.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from guest.machine import PROJECT, distributions, files_of, results_of, user_mode_command, user_mode_obstacle

HOME = PROJECT / "build" / "systemd"
TREE = HOME / "tree"
REASON = HOME / "why-not"
TESTS = ("debian.py", "waiting.py", "guest", "real_systemd")
PYTHON = "/usr/bin/python3"
PLACE = "opt/qosmanager"  # where docs/adopt.md puts it
PACKAGES = f"{PLACE}/lib/python3.11/site-packages"
COMMAND = f"""\
#!/{PLACE}/bin/python
import sys
from qosmanager.cli.main import main
sys.exit(main())
"""
PROOF = f"""\
[Unit]
Description=The tests of a real systemd

[Service]
WorkingDirectory=/project
Environment=PYTHONPATH=/packages:/project/tests PYTHONDONTWRITEBYTECODE=1 PYTEST_DISABLE_PLUGIN_AUTOLOAD=1
ExecStart={PYTHON} -m guest.inside %s
ExecStopPost=/usr/bin/sleep 1
ExecStopPost=/usr/bin/systemctl poweroff --force --force
"""


def obstacle() -> str | None:
    """Why no machine with systemd can be started here."""
    if (reason := user_mode_obstacle()) is not None:
        return reason
    if not TREE.exists():
        return REASON.read_text().strip() if REASON.exists() else f"{TREE} is not there: run `make soak-systemd`"
    if not (TREE / "usr/bin" / f"python{sys.version_info[0]}.{sys.version_info[1]}").exists():
        return f"the Python of {TREE} is another one than this, so that this one's compiled packages do not fit"
    if os.geteuid() != 0:
        return "a root file system belongs to root"
    return None if shutil.which("mke2fs", path=f"{os.environ['PATH']}:/usr/sbin") else "mke2fs is not installed: Debian's e2fsprogs"


def boot(tests: list[str], log: Path, seconds: float) -> Iterator[dict[str, str]]:
    """Run tests (node ids below tests/) under systemd; yield their results as they come (`guest.machine.boot` says what they hold)."""
    tree, disk = log.with_suffix(".tree"), log.with_suffix(".disk")
    shutil.copytree(TREE, tree, symlinks=True)
    try:
        _install(tree)
        _add_tests(tree, tests)
        subprocess.run(["/usr/sbin/mke2fs", "-q", "-t", "ext4", "-O", "^has_journal", "-d", str(tree), str(disk), "600M"], check=True)
        shutil.rmtree(tree)
        words = ["mem=768M", f"ubd0={disk}", "root=/dev/ubda", "rw"]
        yield from results_of(lambda console, port: user_mode_command(words, console, port), log, seconds)
    finally:
        shutil.rmtree(tree, ignore_errors=True)
        disk.unlink(missing_ok=True)


def _install(tree: Path) -> None:
    """Install the project as its documentation says: a virtual environment of the machine's own Python in /opt, and a link to it."""
    into = tree / PACKAGES
    into.mkdir(parents=True)
    pip = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "--no-compile",
        "--root-user-action=ignore",
    ]
    subprocess.run([*pip, "--target", str(into), str(PROJECT)], check=True)
    _copy("qosmanager", into)
    command = tree / PLACE / "bin" / "qosmanager"
    command.parent.mkdir()
    command.write_text(COMMAND)
    command.chmod(0o755)
    command.with_name("python").symlink_to(PYTHON)
    (tree / PLACE / "pyvenv.cfg").write_text("home = /usr/bin\ninclude-system-site-packages = false\n")
    links = tree / "usr/local/bin"
    links.mkdir(parents=True)
    (links / "qosmanager").symlink_to(f"/{PLACE}/bin/qosmanager")
    compiling = [sys.executable, "-m", "compileall", "-q", "-s", str(tree), "-p", "/", str(into)]
    subprocess.run(compiling, check=True)


def _add_tests(tree: Path, tests: list[str]) -> None:
    _copy("pytest", tree / "packages")
    for name in TESTS:
        source, target = PROJECT / "tests" / name, tree / "project/tests" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if source.is_dir() else shutil.copy)(source, target)
    (tree / "project/pytest.ini").write_text("[pytest]\naddopts = --import-mode=importlib\nfilterwarnings = error\n")
    units = tree / "etc/systemd/system"
    (units / "proof.service").write_text(PROOF % " ".join(f"tests/{test}" for test in tests))
    wanted = units / "multi-user.target.wants"
    wanted.mkdir(exist_ok=True)
    (wanted / "proof.service").symlink_to("../proof.service")


def _copy(name: str, to: Path) -> None:
    for package in distributions(name):
        for path, inside in files_of(package):
            target = to / inside
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)
