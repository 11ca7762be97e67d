import re

import pytest

from qosmanager.linux.boot import LinuxBoot, PartialProcError


def test_a_proc_without_the_boots_id_is_said_to_be_partial(tmp_path):
    said = f"{tmp_path}/sys/kernel/random/boot_id: No such file or directory; {tmp_path} has to be mounted whole"
    with pytest.raises(PartialProcError, match=re.escape(said)):
        LinuxBoot(tmp_path)


def test_the_id_is_one_line(tmp_path):
    (tmp_path / "sys/kernel/random").mkdir(parents=True)
    (tmp_path / "sys/kernel/random/boot_id").write_text("4a-b\n")
    assert LinuxBoot(tmp_path).id == "4a-b"
