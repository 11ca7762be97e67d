"""The image: built from this host's own Python, and run by runc as the manifests say (make soak-container; two minutes).

Root file system read-only, few capabilities, no new privileges, the node's processes and network, the system calls that container engines
allow by default.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path

import pytest
import yaml

from deploy_tools import DEPLOY, ROOT
from host_image import Buildah, NoImageError
from real_groups import BUSY, RealGroups, obstacle

pytestmark = pytest.mark.soak
NOBODY = 65534
CALLS = Path("/usr/share/containers/seccomp.json")  # Debian's golang-github-containers-common
BASE, IMAGE = "localhost/python", "localhost/qosmanager"
KINDS = yaml.safe_load_all((DEPLOY / "kustomize/base/qosmanager.yaml").read_text(encoding="utf-8"))
(AGENT, KEEPER) = next(each for each in KINDS if each["kind"] == "DaemonSet")["spec"]["template"]["spec"]["containers"]


def capabilities(container):
    return [f"CAP_{name}" for name in container["securityContext"]["capabilities"]["add"]]


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    """The image's root file system."""
    try:
        buildah = Buildah(tmp_path_factory.mktemp("store"))
        buildah.make_base(BASE)
        ignore = ("--ignorefile", str(ROOT / ".containerignore"))
        file = ("--file", str(DEPLOY / "Containerfile"), "--build-arg", f"BASE={BASE}")
        buildah("build", "--pull-never", "--network", "host", *ignore, *file, "--tag", IMAGE, str(ROOT))
    except NoImageError as error:
        pytest.skip(str(error))
    container = buildah("from", "--pull-never", IMAGE)
    yield buildah("mount", container)
    buildah("umount", container)
    buildah.close()


@pytest.fixture
def groups():
    if (reason := obstacle()) is not None:
        pytest.skip(reason)
    groups = RealGroups()
    yield groups
    groups.remove()


def allowed(powers):
    """Return the default system calls for some capabilities, as the runtime's specification writes them."""
    if not CALLS.exists():
        return None
    profile = json.loads(CALLS.read_text())

    def fits(rule):
        needed, barred = rule.get("includes", {}), rule.get("excludes", {})
        here = set(needed.get("caps", [])) <= set(powers) and not set(barred.get("caps", [])) & set(powers)
        return here and "amd64" in needed.get("arches", ["amd64"]) and "amd64" not in barred.get("arches", [])

    rules = [{key: rule[key] for key in ("names", "action", "args") if rule.get(key)} for rule in profile["syscalls"] if fits(rule)]
    return {"defaultAction": profile["defaultAction"], "architectures": ["SCMP_ARCH_X86_64"], "syscalls": rules}


@pytest.fixture
def container(image, tmp_path):
    """Starts the image; what still runs at the end is ended."""
    started = []

    def start(powers, *arguments):
        started.append(Container(image, tmp_path, powers, *arguments))
        return started[-1]

    yield start
    for each in started:
        each.remove()


class Container:
    """One run of the image by runc."""

    def __init__(self, image, directory, powers, *arguments):
        self.name = f"qosm-test-{os.getpid()}-{time.monotonic_ns()}"
        self._runc = ("runc", "--root", str(directory / "runc"))
        bind = [
            {"destination": "/host/cgroup", "type": "none", "source": "/sys/fs/cgroup", "options": ["rbind", "rslave", "rw"]},
            {"destination": "/run/qosmanager", "type": "none", "source": str(directory / "state"), "options": ["bind", "rw"]},
            {"destination": "/etc/qosmanager", "type": "none", "source": str(directory / "config"), "options": ["bind", "ro"]},
        ]
        for name in ("state", "config", self.name):
            (directory / name).mkdir(exist_ok=True)
        specification = {
            "ociVersion": "1.0.2",
            "process": {
                "user": {"uid": 0, "gid": 0},
                "args": ["qosmanager", *arguments],
                "env": ["PATH=/opt/qosmanager/bin:/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE=1", "PYTHONUNBUFFERED=1"],
                "cwd": "/",
                "capabilities": dict.fromkeys(("bounding", "effective", "permitted"), powers),
                "noNewPrivileges": True,
                "rlimits": [{"type": "RLIMIT_MEMLOCK", "hard": 65536, "soft": 65536}],
            },
            "root": {"path": image, "readonly": True},
            "mounts": [
                {"destination": "/proc", "type": "proc", "source": "proc", "options": ["nosuid", "noexec", "nodev"]},
                {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755"]},
                {"destination": "/sys", "type": "none", "source": "/sys", "options": ["rbind", "ro"]},
                *bind,
            ],
            "linux": {
                "namespaces": [{"type": "mount"}, {"type": "ipc"}],
                "cgroupsPath": f"/{self.name}",
                "seccomp": allowed(powers),
                "maskedPaths": ["/proc/kcore", "/sys/firmware"],
                "readonlyPaths": ["/proc/sys"],
            },
        }
        (directory / self.name / "config.json").write_text(json.dumps(specification))
        command = [*self._runc, "run", "--bundle", str(directory / self.name), self.name]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def stop(self):
        subprocess.run([*self._runc, "kill", self.name, "TERM"], check=True)

    def remove(self):
        subprocess.run([*self._runc, "delete", "--force", self.name], capture_output=True, check=False)
        self.process.wait()

    def end(self):
        """Wait for the end; return what was said."""
        output, _ = self.process.communicate(timeout=60)
        assert self.process.returncode == 0, output
        return output


def test_it_runs_without_any_capability_and_sees_the_node(container):
    assert "qosmanager, version" in container([], "--version").end()
    said = container([], "run", "--once", "--dry-run", "--cgroup-root", "/host/cgroup").end()
    assert f"{os.cpu_count()} CPUs" in said
    assert "CPU pressure" in said


def limited(groups, tmp_path):
    """A service and batch of two users in groups of the test's own; return the batch processes."""
    for name in ("api", "be"):
        groups.add(name)
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "w.yaml").write_text(
        f"workloads:\n- {{name: api, qos: LS, cgroup: {groups.top}/api, requests: {{cpu: 1}}}}\n"
        f"- {{name: job, qos: BE, cgroup: {groups.top}/be, priority: 3000}}\n"
    )
    groups.start("api", "sleep", "300")
    # By exec: a process that only changes its user is undumpable, and its files in /proc stay root's.
    command = "import os; os.setuid({}); os.execv('/usr/bin/python3', ['python3', '-c', {!r}])"
    return [groups.start("be", "/usr/bin/python3", "-c", command.format(user, BUSY)).pid for user in (0, NOBODY)]


@pytest.mark.parametrize(
    ("powers", "scores", "locked"),
    [
        (capabilities(AGENT), ["1000", "1000"], True),
        (capabilities(KEEPER), ["1000", "1000"], False),
        ([], ["1000", "0"], False),  # another user's process keeps its value; all else works
    ],
    ids=["as-shipped", "without-locked-memory", "none"],
)
def test_what_each_capability_is_for(container, groups, tmp_path, powers, scores, locked):
    processes = limited(groups, tmp_path)

    def now():
        return groups.quota(groups.path("be")), [Path(f"/proc/{pid}/oom_score_adj").read_text().strip() for pid in processes]

    before = now()
    places = ("--cgroup-root", "/host/cgroup")
    files = ("--workloads", "/etc/qosmanager/w.yaml", "--node-cgroup", groups.top)
    agent = container(powers, "run", *places, *files, "--listen", "off", "--on-stop", "lease")
    until = time.monotonic() + 60
    while (now()[0] == before[0] or now()[1] != scores) and time.monotonic() < until:
        time.sleep(0.2)
    limit, raised = now()
    assert limit != before[0]
    assert raised == scores
    agent.stop()
    assert (" MemoryLocked" in agent.end()) is locked
    assert now()[0] != before[0]  # a lease
    container(capabilities(KEEPER), "restore", *places).end()
    assert now() == before
