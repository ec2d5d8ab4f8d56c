"""The metrics of compiled kernels."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from baco_like.evaluators.command.measure import section_bytes
from baco_like.evaluators.kernels.c import count_bytes

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


def test_sections_are_counted_as_by_the_program_size(tmp_path):
    """A small change of the code changes `text`, where the file keeps its whole pages."""
    programs = {}
    for name, text in {
        "a": "int x[300] = {1}; int y[5000]; const int z[40] = {2}; int main(void) { return x[0] + z[1]; }",
        "b": "int x[300] = {1}; int y[5000]; const int z[44] = {2}; int main(void) { return x[0] + z[1]; }",
    }.items():
        (tmp_path / f"{name}.c").write_text(text)
        subprocess.run(["cc", f"{name}.c", "-o", name], cwd=tmp_path, check=True)
        programs[name] = section_bytes(tmp_path / name)
    assert programs["a"]["data"] >= 1200
    assert programs["a"]["bss"] >= 20000
    assert programs["b"]["text"] - programs["a"]["text"] == 16
    if shutil.which("size") is not None:
        out = subprocess.run(
            ["size", "a"], cwd=tmp_path, check=True, capture_output=True, text=True
        )
        assert list(programs["a"].values()) == [
            int(x) for x in out.stdout.splitlines()[1].split()[:3]
        ]


@pytest.mark.parametrize(
    "content", [b"", b"#!/bin/sh", b"\x7fELF\x02\x01", b"\x7fELF\x02\x01" + b"\xff" * 99]
)
def test_other_files_have_no_sections(tmp_path, content):
    (tmp_path / "other").write_bytes(content)
    with pytest.raises(ValueError, match=r"it is not an ELF file|its header is cut off"):
        section_bytes(tmp_path / "other")
