"""The metrics of compiled kernels."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from baco_like.evaluators.c_kernels.evaluator import count_bytes

pytestmark = pytest.mark.skipif(
    shutil.which("cc") is None or sys.platform != "linux", reason="needs a C compiler for ELF"
)


def test_the_bytes_of_code_and_data_are_a_metric(tmp_path):
    assert count_bytes(Path(sys.executable)) <= Path(sys.executable).stat().st_size
    other = tmp_path / "other"
    other.write_bytes(b"\x7fELF\x02\x01")
    assert count_bytes(other) == 6
    (tmp_path / "a.c").write_text("int main(void) { return 0; }")
    (tmp_path / "b.c").write_text("int x[64] = {1}; int main(void) { return x[0]; }")
    for name in "ab":
        command = ["cc", f"{name}.c", "-o", f"{name}.out"]
        subprocess.run(command, cwd=tmp_path, check=True)
    few, more = count_bytes(tmp_path / "a.out"), count_bytes(tmp_path / "b.out")
    assert 256 <= more - few < 512
