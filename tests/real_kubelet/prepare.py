"""Puts in place what real containers need (make containers): containerd, runc and busybox out of Debian's packages, below build/.

Nothing is installed and no service is started. Where the packages cannot be had, it says why and leaves the reason for the tests, which
then skip with it. It never fails the build.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from debian import is_known, or_say_why, require_debian, run, unpacked
from real_kubelet.programs import REASON, TREE

PACKAGES = ("containerd", "runc", "busybox-static")


def prepare() -> None:
    if TREE.exists():
        return
    require_debian()
    if not all(map(is_known, PACKAGES)):
        run("apt-get", "update", "--quiet")
    fresh = TREE.with_suffix(".new")
    shutil.rmtree(fresh, ignore_errors=True)
    with unpacked(*PACKAGES) as tree:
        shutil.move(tree, fresh)
    fresh.rename(TREE)


if __name__ == "__main__":
    or_say_why(prepare, REASON, "no containers", "the tests on real containers")
