"""Sizes of sections, and instructions by class and by opcode."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from baco_like import Categorical, Space, Trial
from baco_like.evaluators.command import build_metrics
from baco_like.evaluators.command.build_metrics import count_classes, count_opcodes, program_metrics
from baco_like.evaluators.command.evaluator import Commands, command_evaluator
from baco_like.evaluators.staged import Builds

X86 = """
0000000000000000 <f>:
   0:\tendbr64
   4:\tmov    0x8(%rdi),%eax        # (load)
   8:\tmov    %eax,-0x4(%rbp)
   c:\taddl   $0x1,(%rdi)
   f:\tcmpq   $0x0,0x0(%rip)
  16:\tlea    0x8(%rdi,%rax,4),%rdx
  1b:\tmovups (%rsi),%xmm0
  1f:\taddps  %xmm1,%xmm0
  22:\taddss  %xmm1,%xmm0
  26:\tvmovups %ymm0,(%rdx,%rax,4)
  2b:\tjne    4 <f+0x4>
  2d:\tcall   32 <f+0x32>
  32:\tdivl   (%rdi)
  34:\tret
"""

ARM = """
   0:\tldr\tw1, [x0]
   4:\tfadd\tv0.4s, v1.4s, v2.4s
   8:\tstr\tq0, [x1, #16]
   c:\tb.ne\t0 <f>
  10:\tbl\t0 <g>
"""

LLVM = """
define i32 @f(i32 %0) {
  %2 = add nsw i32 %0, 1
  %3 = tail call i32 @g(i32 %2)
  switch i32 %3, label %4 [
    i32 1, label %4
  ]

4:
  %5 = add i32 %3, 1
  ret i32 %5
}
"""


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        (X86, (12, 7, 3, 5, 3, 1, 1)),
        (ARM, (5, 2, 1, 1, 1, 1, 1)),
        ("", (0,) * 7),
    ],
    ids=["x86", "arm", "nothing"],
)
def test_instructions_are_counted_by_class(text, counts):
    names = ("instructions", "scalar", "vector", "loads", "stores", "branches", "calls")
    found = count_classes(text)
    assert found == {f"code.{n}": float(c) for n, c in zip(names, counts, strict=True)}


def test_instructions_of_a_module_are_counted_by_opcode():
    assert count_opcodes(LLVM) == {"ir.add": 2.0, "ir.call": 1.0, "ir.switch": 1.0, "ir.ret": 1.0}


@pytest.mark.skipif(shutil.which("objdump") is None, reason="needs objdump")
def test_an_object_has_sections_and_instructions_and_equal_ones_are_read_once(
    tmp_path, monkeypatch
):
    source = "int values[4] = {1, 2, 3, 4}; int f(int i) { return i ? values[i] : 0; }"
    subprocess.run(
        ["cc", "-O1", "-x", "c", "-", "-c", "-o", tmp_path / "a.o"],
        input=source.encode(),
        check=True,
    )
    found = program_metrics(tmp_path / "a.o")
    assert found["size.data"] == 16.0
    assert found["size.text"] > 8.0
    assert found["code.loads"] >= 1.0
    assert found["code.stores"] == 0.0
    shutil.copy(tmp_path / "a.o", tmp_path / "b.o")
    monkeypatch.setattr(build_metrics.shutil, "which", lambda name: pytest.fail("read again"))
    assert program_metrics(tmp_path / "b.o") == found


def test_a_file_of_another_format_has_its_bytes(tmp_path):
    (tmp_path / "kernel.bin").write_bytes(b"12345")
    assert program_metrics(tmp_path / "kernel.bin") == {"size.bytes": 5.0}


@pytest.mark.parametrize("is_wanted", [False, True])
def test_a_command_keeps_the_metrics_of_its_program_if_the_run_wants_them(tmp_path, is_wanted):
    commands = Commands(
        build="cp {file} {workdir}/app",
        run="wc -c {workdir}/app",
        program="{workdir}/app",
        pattern=r"^(\d+)",
        builds=Builds(build_metrics=is_wanted),
    )
    (tmp_path / "one.txt").write_text("four")
    space = Space({"file": Categorical(["one.txt", "none.txt"])})
    evaluator = command_evaluator(space, commands, tmp_path)
    for number, file in enumerate(["one.txt", "none.txt"]):
        evaluator.submit(Trial(number, {"file": file}))
    (ran,), (failed,) = evaluator.wait(), evaluator.wait()
    evaluator.close()
    assert (ran.value, ran.build) == (4.0, {"size.bytes": 4.0} if is_wanted else {})
    assert (failed.failed, failed.build) == ("compile", {})
