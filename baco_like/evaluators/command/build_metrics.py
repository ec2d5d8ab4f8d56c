"""Numbers that are known of a program before it runs: sizes of its sections, and instructions by class.

The names have the group before the dot: ``size.text``, ``code.loads``, ``ir.add``.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import Counter
from hashlib import sha256
from pathlib import Path

from baco_like.evaluators.command.measure import section_bytes

_LINE = re.compile(
    r"^[ \t]+[0-9a-f]+:\t(?:lock |rep\w* |notrack |bnd )?(\S+)[ \t]*(.*)", re.MULTILINE
)
"""An instruction in the output of ``objdump``: mnemonic and operands."""

_BRANCH = re.compile(r"j\w+|b(\.\w+)?|cbn?z|tbn?z|loop\w*")
_CALL = re.compile(r"callq?|bl|blr")
_VECTOR = re.compile(r"%[yz]mm|\bv\d+\.|\bz\d+\.")
_PACKED = re.compile(r"v?(\w+p[sd]|p[a-z]+[bwdq]|mov\w*dq\w*)")
_NO_ACCESS = re.compile(r"lea\w*|nop\w*|prefetch\w*|call\w*|j\w+|push\w*|pop\w*|adrp?")
_READS_ONLY = re.compile(r"cmp\w*|test\w*|i?mul[bwlq]|i?div\w*|bt[lwq]?|v?u?comis\w")
"""Instructions of x86 that read the memory of their last operand; others write it."""

_SECONDS = 60.0

_OPCODE = re.compile(r"^  (?:%\S+ = )?(?:tail |musttail )?([a-z]+)", re.MULTILINE)
"""The opcode of an instruction in the text of a module."""


def program_metrics(program: Path) -> dict[str, float]:
    """Return the bytes of the sections and the instructions by class of an object file or a program.

    Equal files are read once. A file in another format than ELF has its bytes alone; without ``objdump`` or
    ``llvm-objdump`` nothing is known about instructions.
    """
    try:
        sizes = {f"size.{name}": float(count) for name, count in section_bytes(program).items()}
    except ValueError:
        return {"size.bytes": float(program.stat().st_size)}
    return {**sizes, **_count_code(program)}


_known: dict[bytes, dict[str, float]] = {}
"""The instructions of some files by their content."""

_MOST_KNOWN = 1024


def _count_code(program: Path) -> dict[str, float]:
    content = sha256(program.read_bytes()).digest()
    counts = _known.get(content)
    if counts is None:
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        counts = _known[content] = _disassemble(program)
    return counts


def _disassemble(program: Path) -> dict[str, float]:
    tool = shutil.which("objdump") or shutil.which("llvm-objdump")
    if tool is None:
        return {}
    command = [tool, "-d", "--no-show-raw-insn", str(program)]
    try:  # `run_command` keeps one megabyte of the output
        listing = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return {}
    return count_classes(listing.stdout)


def count_classes(text: str) -> dict[str, float]:
    """Return the numbers of instructions by class in a disassembly of x86-64 or AArch64.

    One that loads or stores counts as such and as a vector or scalar instruction too; branches and calls count alone.
    """
    names = ("instructions", "scalar", "vector", "loads", "stores", "branches", "calls")
    counts: Counter[str] = Counter(dict.fromkeys(names, 0))
    for name, operands in _LINE.findall(text):
        if name.startswith(("nop", "data16", "xchg", "ret", "endbr", "leave", "hlt", "int3")):
            continue
        counts["instructions"] += 1
        if _CALL.fullmatch(name):
            counts["calls"] += 1
        elif _BRANCH.fullmatch(name):
            counts["branches"] += 1
        else:
            is_packed = "%xmm" in operands and _PACKED.fullmatch(name)
            counts["vector" if _VECTOR.search(operands) or is_packed else "scalar"] += 1
            for access in _accesses(name, operands.split("#")[0].rstrip()):
                counts[access] += 1
    return {f"code.{name}": float(counts[name]) for name in names}


def _accesses(name: str, operands: str) -> tuple[str, ...]:
    """Return whether an instruction loads, stores or both."""
    if "[" in operands:  # AArch64
        return ("loads",) if name.startswith("ld") else ("stores",) if name.startswith("st") else ()
    if "(" not in operands or _NO_ACCESS.fullmatch(name):
        return ()
    if not operands.endswith(")"):
        return ("loads",)
    is_alone = operands.rpartition("(")[0].count(",") == 0 and not operands.startswith(("%", "$"))
    if _READS_ONLY.fullmatch(name) and (is_alone or name.startswith(("cmp", "test", "bt"))):
        return ("loads",)
    if name.startswith(("mov", "vmov", "set", "v")):
        return ("stores",)
    return ("loads", "stores")


def count_opcodes(text: str) -> dict[str, float]:
    """Return the numbers of instructions by opcode in the text of an LLVM module."""
    return {f"ir.{name}": float(count) for name, count in Counter(_OPCODE.findall(text)).items()}
