"""Problems of real compilers whose values are deterministic: a space of flags or passes, an objective and a C program.

    problem = Suite().problem("gcc-Os", "size", "sorts")
    level = problem.measure(problem.default)

A configuration becomes the words of a command line, the words build an object file, and the object is checked and
measured. Two levels of results are kept: by the compiler, source and words the hash of the object, and by the object
and the tools its value. A repeated command needs no compiler, and equal objects are measured once.
"""

import csv
import fcntl
import gzip
import hashlib
import json
import math
import os
import platform
import random
import re
import resource
import shutil
import sqlite3
import struct
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from baco_like import Categorical, Ordinal, Space
from baco_like.evaluators import Flags, Passes
from baco_like.evaluators._processes import llvm_library
from baco_like.evaluators._processes.temporary import LazyFolder
from baco_like.evaluators._processes.worker import Worker
from baco_like.evaluators.command.compiler_options import read_options

HERE = Path(__file__).parent
PROGRAMS = HERE / "programs"
RECORDED = HERE / "recorded.json.gz"
FOLDER = Path.home() / ".cache" / "baco_like_compilers"

OBJECTIVES: Mapping[str, tuple[str, ...]] = {
    "size": (),
    "instructions": ("valgrind",),
    "ir": (),
    "cycles": ("valgrind", "llvm-objdump", "llvm-mca"),
}
"""The tools of each objective besides the compiler; their versions are part of the keys of its values."""

SECONDS = {"build": 120, "check": 60, "tool": 300}
"""Limits of wall time, long enough for a busy machine: a timeout is a result that is kept."""

CLANG_SWITCHES = (
    "vectorize slp-vectorize unroll-loops inline-functions inline-hint-functions merge-all-constants jump-tables "
    "optimize-sibling-calls omit-frame-pointer strict-aliasing finite-loops function-sections reroll-loops "
    "delete-null-pointer-checks builtin strict-return rounding-math"
)
OPT_SWITCHES = re.compile(
    r"-(simplifycfg-(hoist|sink|merge)|slp-vectorize-hor|vectorize-(loops|slp)|unroll-(allow|runtime)|enable-(gvn|pre|load"
    r"|loop|dfa|newgvn|merge-functions|nontrivial|constraint|partial-inl|unroll|masked|interleaved|if-conv|cond-stores|chr"
    r"|double-float|dse|heap|function-spec|phi-of|split-backedge)|disable-(licm|loop-unr|partial|vector-comb|memcpy-idiom"
    r"|memmove|binop|libcalls|mergeicmps|basic-aa)|instcombine-(code|neg)|jump-threading-across|lsr-|licm-control"
    r"|hoist-common|sink-common|switch-(range|to)|inline-(cost-full|enable)|loop-vectorize-with|adce)"
)
LLVM_NUMBERS = re.compile(
    r"(inline|unroll|slp|vectoriz|licm|lsr|gvn|dse|earlycse|jump-(threading|inst)|memdep|memssa|phi-node|two-entry|simplifycfg"
    r"|loop|max-(dependences|interleave|nested|num-inline|speculation|uses|switch)|scalar-evolution|scev|instcombine-max"
    r"|rotation|pragma|runtime-memory|small-loop|unswitch|bonus-inst|available-load|callsite-split|spec-exec"
    r"|func-specialization|tail-(dup|merge)|x86-cmov|min-jump|float2int|cvp|capture|max-(store-mem|jump-table)|memcmp)"
)
LEFT_OUT = re.compile(r"loop-(predication|distribute)|instcombine-max-(iter|arr)|inline-remark")
MOST_PASSES = 30
"""Longest pipeline; its passes are in ``passes.txt``, without those whose result depends on addresses of memory."""

LISTS = (CLANG_SWITCHES, OPT_SWITCHES.pattern, LLVM_NUMBERS.pattern, LEFT_OUT.pattern)


class MissingTool(Exception):
    """A tool is not installed, and the store cannot answer without it."""


@dataclass(frozen=True)
class Program:
    """A C program of the suite.

    Attributes:
        name: Name of its file.
        half: ``development`` or ``judged``.
        kind: The problem that it solves; each half has one program of each kind.
        argument: The size of its input.
        checksum: The printed result.
        folder: Where its file is.
    """

    name: str
    half: str
    kind: str
    argument: str
    checksum: str
    folder: Path = PROGRAMS

    @cached_property
    def digest(self) -> str:
        """Hash of the source with its header."""
        return _hash(*((self.folder / n).read_text() for n in ("suite.h", f"{self.name}.c")))

    @cached_property
    def macros(self) -> dict[str, tuple[int, list[int]]]:
        """Defaults and values of the macros that shape its loops, from comments such as ``macro TILE 4 8``."""
        text = (self.folder / f"{self.name}.c").read_text()
        defaults = dict(re.findall(r"#define (\w+) (\d+)\n#endif", text))
        listed = re.findall(r"/\* macro (\w+) ([\d ]+) \*/", text)
        return {name: (int(defaults[name]), [*map(int, values.split())]) for name, values in listed}


def read_programs(folder: Path = PROGRAMS) -> dict[str, Program]:
    """Return the programs by name, from ``list.csv`` of a folder."""
    with (folder / "list.csv").open(newline="") as file:
        return {row["name"]: Program(**row, folder=folder) for row in csv.DictReader(file)}


class Store:
    """Results by key, in one SQLite file for several processes; the recorded part of the suite is read too."""

    def __init__(self, path: Path | None, recorded: Path | None = RECORDED) -> None:
        self.recorded: dict[str, Any] = {}
        self.used: dict[str, Any] = {}
        if recorded is not None and recorded.exists():
            self.recorded = json.loads(gzip.decompress(recorded.read_bytes()))
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
        self._database = sqlite3.connect(path or ":memory:", timeout=120, isolation_level=None)
        # SQLite does not wait where two processes change the mode of a new file: they do it by turns.
        folder = None if path is None else os.open(path.parent, os.O_RDONLY)
        if folder is not None:
            fcntl.flock(folder, fcntl.LOCK_EX)
        try:
            self._database.execute("PRAGMA journal_mode=WAL")
        finally:
            if folder is not None:
                os.close(folder)
        self._database.execute("PRAGMA synchronous=NORMAL")
        self._database.execute(
            "CREATE TABLE IF NOT EXISTS results (key TEXT PRIMARY KEY, value TEXT)"
        )

    def get(self, key: str) -> Any:
        """Return a value, or None."""
        row = self._database.execute("SELECT value FROM results WHERE key = ?", (key,)).fetchone()
        value = self.recorded.get(key) if row is None else json.loads(row[0])
        if value is not None:
            self.used[key] = value
        return value

    def put(self, key: str, value: Any) -> Any:
        """Keep a value and return it."""
        self._database.execute("REPLACE INTO results VALUES (?, ?)", (key, json.dumps(value)))
        self.used[key] = value
        return value


@dataclass(frozen=True)
class Option:
    """A parameter of a space: its values, and the words of each value; the default has none."""

    name: str
    values: Sequence[Any]
    default: Any
    is_ordered: bool
    words: Sequence[Sequence[str]]

    @property
    def parameter(self) -> Any:
        kind = Ordinal if self.is_ordered else Categorical
        return kind(list(self.values), default=self.default)


class Suite:
    """Builds, checks and measures; answers from its store where it can.

    Args:
        store: Where results are kept.
        programs: By name; those of the suite where they are not given.
        offline: Never start a tool: what the store does not know raises `MissingTool`.
    """

    def __init__(
        self,
        store: Store | None = None,
        programs: Mapping[str, Program] | None = None,
        offline: bool = False,
    ) -> None:
        self.store = store or Store(FOLDER / "store.sqlite")
        self.programs = programs or read_programs()
        self.offline = offline
        self._versions: dict[str, str] = {}
        self._folder = LazyFolder()

    @cached_property
    def _llvm(self) -> Worker:
        """The process that runs passes."""
        library = llvm_library.find_library("opt")
        if self.offline or library is None:
            raise MissingTool("there is no opt that loads libLLVM; run.py installs it")
        return Worker(llvm_library.TARGET, settings=library)

    def problem(self, space: str, objective: str, program: str) -> "Problem":
        """Return a problem.

        Args:
            space: ``gcc-Os``, ``gcc-O2``, ``gcc-O3``, ``clang-O2``, ``opt-Os`` and so on: a compiler and its level;
                ``gcc-Os-30`` for a subset of 30 flags, drawn once for each program; ``nest-O3`` for the tiles and
                unroll factors of a program with macros; ``passes-Oz`` for sequences of LLVM's passes.
            objective: One of `OBJECTIVES`.
            program: Name of a program.
        """
        tool, level, *size = space.split("-")
        if objective not in OBJECTIVES or (objective == "ir") > (tool in ("opt", "passes")):
            raise ValueError(
                f"objective = {objective!r}: expected one of {list(OBJECTIVES)}; ir needs a space of opt or passes"
            )
        own = self.programs[program]
        if tool == "passes":
            return PassProblem(self, tool, f"-{level}", objective, own, ())
        if tool == "nest":
            options = _nest_options(own)
        else:
            options = self._options(tool, f"-{level}")
            if size:
                options = _subset(options, int(size[0]), program)
        compiler = "gcc" if tool == "nest" else tool
        return Problem(self, compiler, f"-{level}", objective, own, options)

    def _options(self, tool: str, level: str) -> list[Option]:
        key = _hash("space", self.version(tool), tool, level, *LISTS)
        kept = self.store.get(key)
        if kept is None:
            if self.offline:
                raise MissingTool(f"the store has no space of {tool} {level}")
            kept = self.store.put(key, _ask_compiler(tool, find_tool(tool), level))
        return [Option(*one) for one in kept]

    def version(self, tool: str) -> str:
        """Return the version of a tool that keys have; without the tool, the version of the stored results.

        Raises:
            MissingTool: It is neither installed nor known to the store.
        """
        if tool not in self._versions:
            path = None if self.offline else shutil.which(find_tool(tool))
            if path is None:
                kept = self.store.get(f"version {tool}")
                if kept is None:
                    raise MissingTool(f"{tool} is not installed; run.py installs it")
            else:
                kept = " ".join(_run([path, "--version"], "tool").stdout.split()[:9])
                if tool == "valgrind":
                    kept += " ".join(platform.libc_ver())
                if self.store.get(f"version {tool}") != kept:
                    self.store.put(f"version {tool}", kept)
            self._versions[tool] = kept
        return self._versions[tool]

    def measure(
        self, tool: str, level: str, words: Sequence[str], objective: str, program: Program
    ) -> "Result":
        """Build a program and return its result, from the store where it is known."""
        versions = [self.version(t) for t in (("clang", "opt") if tool == "opt" else (tool,))]
        build_key = _hash("build", versions, program.digest, level, list(words))
        tools = [self.version(t) for t in OBJECTIVES[objective]]
        fixed = ("value", objective, tools, program.argument, program.checksum)
        build = self.store.get(build_key)
        if build is not None:
            value = None if build["failed"] else self.store.get(_hash(*fixed, build["digest"]))
            if build["failed"] or value is not None:
                return Result.of(build, value)
        if self.offline:
            command = " ".join([tool, level, *words])
            raise MissingTool(f"the store does not know {command} on {program.name}")
        with tempfile.TemporaryDirectory(prefix="suite") as name:
            folder, before = Path(name), _children_seconds()
            failed = _build(tool, [level, *words], program, folder)
            digest = None if failed else _hash((folder / "own.o").read_bytes())
            seconds = round(_children_seconds() - before, 4)
            build = {"digest": digest, "failed": failed, "seconds": seconds}
            self.store.put(build_key, build)
            if failed:
                return Result.of(build, None)
            value_key, before = _hash(*fixed, digest), _children_seconds()
            value = self.store.get(value_key)
            if value is None:
                number, wrong = self._value(objective, program, folder)
                seconds = round(_children_seconds() - before, 4)
                value = {"value": number, "failed": wrong, "seconds": seconds}
                self.store.put(value_key, value)
            return Result.of(build, value)

    def measure_passes(
        self, level: str, pipeline: str, objective: str, program: Program, near: float
    ) -> "Result":
        """Run passes and return the result, from the store where it is known; no value above ``near`` is checked."""
        folder = self._folder.path
        has_text = has_object = False

        def need_text() -> str | None:
            nonlocal has_text, has_object
            if has_text:
                return None
            has_text, has_object = True, False
            request = {"source": str(self._bitcode(level, program)), "passes": pipeline}
            return self._ask(request, text=folder / "own.ll")

        def need_object() -> None:
            nonlocal has_object
            need_text()
            if not has_object and self._ask(
                {"source": str(folder / "own.ll")}, object=folder / "own.o"
            ):
                raise RuntimeError(f"there is no code for {pipeline!r} on {program.name}")
            has_object = True

        versions = [self.version(tool) for tool in ("clang", "opt")]
        key, began = (
            _hash("passes", versions, program.digest, level, pipeline),
            time.perf_counter(),
        )
        build = self.store.get(key)
        if build is None:
            failed = need_text()
            text = "" if failed else (folder / "own.ll").read_text().partition("\n")[2]
            build = {"failed": failed, "digest": None if failed else _hash(text)}
            build["seconds"] = round(time.perf_counter() - began, 4)
            self.store.put(key, build)
        if build["failed"]:
            return Result.of(build, None)
        tools = [versions[1], *map(self.version, OBJECTIVES[objective])]
        fixed = (tools, program.argument, program.checksum, build["digest"])
        key, began = _hash("value", objective, *fixed), time.perf_counter()
        value = self.store.get(key)
        if value is None:
            need_text() if objective == "ir" else need_object()
            wrong = _link(folder) if OBJECTIVES[objective] else None  # the program is run
            number = None if wrong else self._number(objective, program, folder)
            value = {"value": number, "failed": wrong}
            value["seconds"] = round(time.perf_counter() - began, 4)
            self.store.put(key, value)
        if not value["failed"] and value["value"] <= near:
            key = _hash("check", *fixed)
            checked = self.store.get(key)
            if checked is None:
                need_object()
                checked = self.store.put(key, {"failed": _check(program, folder)})
            if checked["failed"]:
                value = {**value, "value": None, **checked}
        return Result.of(build, value)

    def _ask(self, request: dict[str, str], **paths: Path) -> str | None:
        """Send a request to the process of LLVM; return the reason of a failure."""
        given = {**request, **{name: str(path) for name, path in paths.items()}}
        reply = self._llvm.request(given, timeout=SECONDS["build"])
        return None if reply.ok else "timeout" if reply.timed_out else "compile"

    def _bitcode(self, level: str, program: Program) -> Path:
        """Return the bitcode of a program with the attributes of a level, before any pass."""
        path = self._folder.path / f"{program.name}{level}.bc"
        if not path.exists():
            front = f"{level} -Xclang -disable-llvm-passes -emit-llvm -c {program.name}.c -o {path}"
            done = _run([find_tool("clang"), *front.split()], "build", program.folder)
            if done.returncode:
                raise RuntimeError(f"clang {level} fails on {program.name}: {done.stderr[:300]}")
        return path

    def _value(
        self, objective: str, program: Program, folder: Path
    ) -> tuple[float | None, str | None]:
        wrong = _check(program, folder)
        return (None, wrong) if wrong else (self._number(objective, program, folder), None)

    def _number(self, objective: str, program: Program, folder: Path) -> float:
        """Return the value of a program that was built and, if it is to be run, linked."""
        match objective:
            case "size":
                return text_size((folder / "own.o").read_bytes())
            case "ir":
                return count_ir((folder / "own.ll").read_text())
            case "instructions":
                return _instructions(program, folder) - self._start_instructions()
        return _cycles(program, folder)

    def _start_instructions(self) -> int:
        """Return the executed instructions of a program that does nothing."""
        empty = Program("empty", "", "", "0", "")
        key = _hash("empty", empty.digest, self.version("gcc"), self.version("valgrind"))
        kept = self.store.get(key)
        if kept is None:
            with tempfile.TemporaryDirectory(prefix="suite") as name:
                _build("gcc", ["-O2"], empty, Path(name))
                _link(Path(name))
                kept = self.store.put(key, _instructions(empty, Path(name)))
        return int(kept)


@dataclass(frozen=True)
class Result:
    """The result of a build: a value or the reason of a failure, the hash of the object, and the CPU seconds."""

    value: float | None
    failed: str | None
    program: str | None
    seconds: float

    @classmethod
    def of(cls, build: Mapping[str, Any], value: Mapping[str, Any] | None) -> "Result":
        if value is None:
            return cls(None, build["failed"], None, build["seconds"])
        return cls(
            value["value"], value["failed"], build["digest"], build["seconds"] + value["seconds"]
        )


@dataclass(frozen=True)
class Problem:
    """A space, an objective and a program; lower values are better.

    Attributes:
        results: Of all calls of `measure`, in their order.
    """

    suite: Suite
    tool: str
    level_flag: str
    objective: str
    program: Program
    options: Sequence[Option]
    results: list[Result] = field(default_factory=list)

    @cached_property
    def space(self) -> Space:
        """The space, for our own optimizer."""
        return Space({option.name: option.parameter for option in self.options})

    @property
    def places(self) -> Space:
        """The space, for tuners without sequences."""
        return self.space

    @property
    def reference(self) -> float | None:
        """The value of the level where it is not the default."""
        return None

    @property
    def parameters(self) -> dict[str, list[Any]]:
        """The values of each parameter."""
        return {option.name: list(option.values) for option in self.options}

    @property
    def default(self) -> dict[str, Any]:
        """The optimization level alone."""
        return {option.name: option.default for option in self.options}

    def words(self, config: Mapping[str, Any]) -> list[str]:
        """Return the words of a configuration after the level."""
        chosen = [o.words[list(o.values).index(config[o.name])] for o in self.options]
        return [word for words in chosen for word in words]

    def measure(self, config: Mapping[str, Any]) -> float | None:
        """Build and measure a configuration; None if it fails."""
        words = self.words(config)
        result = self.suite.measure(self.tool, self.level_flag, words, self.objective, self.program)
        self.results.append(result)
        return result.value


class PassProblem(Problem):
    """Sequences of LLVM's passes; the default is the empty one, and the level is the reference."""

    @cached_property
    def _passes(self) -> Passes:
        names = (HERE / "passes.txt").read_text().split()
        return Passes(names, MOST_PASSES, start=[], opt="opt")

    @property
    def reference(self) -> float | None:
        """The value of the level."""
        level = f"default<{self.level_flag[1:]}>"
        return self._measure(level, math.inf).value

    @cached_property
    def space(self) -> Space:
        return Space(self._passes.parameters)

    @cached_property
    def places(self) -> Space:
        """The same for tuners without sequences: a parameter for each place, whose value may be no pass."""
        place = Categorical(["", *self._passes.elements], default="")
        return Space({f"pass{i}": place for i in range(MOST_PASSES)})

    @property
    def parameters(self) -> dict[str, list[Any]]:
        return {name: list(self.places.values(name)) for name in self.places.parameters}

    @property
    def default(self) -> dict[str, Any]:
        return {"passes": ()}

    def words(self, config: Mapping[str, Any]) -> list[str]:
        """Return the passes, of either space."""
        return list(config["passes"]) if "passes" in config else [x for x in config.values() if x]

    def measure(self, config: Mapping[str, Any]) -> float | None:
        """Run passes and measure the program; its result is checked unless a smaller value was found before."""
        near = min((r.value for r in self.results if r.value is not None), default=math.inf)
        result = self._measure(self._passes.text(self.words(config)) or "no-op-module", near)
        self.results.append(result)
        return result.value

    def _measure(self, text: str, near: float) -> Result:
        return self.suite.measure_passes(self.level_flag, text, self.objective, self.program, near)


@cache
def find_tool(tool: str) -> str:
    """Return the name of a program: without ``clang`` the one of the version of ``opt``."""
    if tool != "clang" or shutil.which("clang"):
        return tool
    version = _run(["opt", "--version"], "tool").stdout if shutil.which("opt") else ""
    found = re.search(r"version (\d+)", version)
    return f"clang-{found[1]}" if found else "clang"


def _ask_compiler(tool: str, program: str, level: str) -> list[list[Any]]:
    """Return the options of a compiler as lists, which a store can keep."""
    if tool == "gcc":
        flags = Flags("all", "all", level=level, compiler=program)
    else:
        known = read_options(program, level)
        numbers = {
            name: option.values()
            for name, option in known.numbers.items()
            if LLVM_NUMBERS.match(name) and not LEFT_OUT.match(name) and len(option.values()) > 1
            if option.default < 10**6
        }
        if tool == "clang":
            listed = {name.replace("-fno-", "-f") for name in known.switches}
            switches = [f"-f{name}" for name in CLANG_SWITCHES.split() if f"-f{name}" in listed]
        else:
            own = (x for x in known.switches if OPT_SWITCHES.match(x))
            switches = [x for x in own if not LEFT_OUT.match(x[1:])]
        flags = Flags(switches, numbers, level=level, compiler=program)
    default = Space(flags.parameters).default_config
    assert default is not None
    found = []
    for name, parameter in flags.parameters.items():
        values = list(parameter.values)
        words = [flags.words({**default, name: value})[1:] for value in values]
        found.append([name, values, default[name], isinstance(parameter, Ordinal), words])
    return found


def _nest_options(program: Program) -> list[Option]:
    if not program.macros:
        raise ValueError(f"program = {program.name!r} has no macros for the space of loop nests")
    found = []
    for name, (default, values) in program.macros.items():
        words = [[] if value == default else [f"-D{name}={value}"] for value in values]
        found.append(Option(name, values, default, True, words))
    return found


def _subset(options: Sequence[Option], size: int, program: str) -> list[Option]:
    """Return some of the options that change at least one program (``active.txt``), in the order of the space."""
    listed = set((HERE / "active.txt").read_text().split())
    names = sorted({option.name for option in options} & listed) or sorted(o.name for o in options)
    chosen = set(random.Random(f"{program} {size}").sample(names, min(size, len(names))))
    return [option for option in options if option.name in chosen]


def _build(tool: str, words: Sequence[str], program: Program, folder: Path) -> str | None:
    """Write ``own.o``; return the reason of a failure."""
    source = f"{program.name}.c"
    for name in ("suite.h", source):
        shutil.copy(program.folder / name, folder)
    if tool == "opt":
        front = f"{words[0]} -Xclang -disable-llvm-passes -emit-llvm -c {source} -o own.bc"
        steps = [
            [find_tool("clang"), *front.split()],
            ["opt", *words, "own.bc", "-S", "-o", "own.ll"],
            ["llc", "-relocation-model=pic", "-filetype=obj", "own.ll", "-o", "own.o"],
        ]
    else:
        steps = [[find_tool(tool), *words, "-w", "-c", source, "-o", "own.o"]]
    for step in steps:
        done = _run(step, "build", folder)
        if "Killed signal" in done.stderr or done.returncode < 0:
            raise RuntimeError(f"{' '.join(step)} was killed; is there enough memory?")
        if done.returncode:
            return "timeout" if done.returncode == TIMEOUT else "compile"
    return None


def _link(folder: Path) -> str | None:
    """Return the reason of a failure."""
    done = _run(["gcc", "-no-pie", "own.o", "-o", "own"], "build", folder)
    return "link" if done.returncode else None


def _check(program: Program, folder: Path) -> str | None:
    """Link, run and compare the checksum; return the reason of a failure."""
    if wrong := _link(folder):
        return wrong
    done = _run(["./own", program.argument], "check", folder)
    if done.returncode:
        return "timeout" if done.returncode == TIMEOUT else "crash"
    return None if done.stdout.strip() == program.checksum else "wrong result"


def _instructions(program: Program, folder: Path) -> int:
    call = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=counts"]
    _run([*call, "./own", program.argument], "tool", folder)
    return int(re.findall(r"summary: (\d+)", (folder / "counts").read_text())[-1])


def text_size(data: bytes) -> int:
    """Return the bytes of the executable sections of a 64-bit ELF object."""
    offset = struct.unpack_from("<Q", data, 40)[0]
    width, count = struct.unpack_from("<HH", data, 58)
    sections = [struct.unpack_from("<IIQQQQ", data, offset + i * width) for i in range(count)]
    return sum(size for _, _, flags, _, _, size in sections if flags & 4)


def count_ir(text: str) -> int:
    """Return the number of instructions in LLVM assembly."""
    return len(re.findall(r"^  [^\s\];]", text, re.MULTILINE))


def _cycles(program: Program, folder: Path) -> float:
    """Return the cycles of the hot blocks by `llvm-mca`, each times its executions.

    The blocks are straight runs of instructions that were executed equally often; those with nine tenths of all
    executed instructions of the program count.
    """
    call = ["valgrind", "--tool=callgrind", "--dump-instr=yes", "--compress-pos=no"]
    _run([*call, "--callgrind-out-file=calls", "./own", program.argument], "tool", folder)
    shown = _run(["llvm-objdump", "-d", "--no-show-raw-insn", "own"], "tool", folder).stdout
    lines = re.findall(r"^\s+([0-9a-f]+):\s+(.*?)\s*$", shown, re.MULTILINE)
    counts = _executions((folder / "calls").read_text())
    blocks = hot_blocks([(int(address, 16), text) for address, text in lines], counts)
    marked = [["# LLVM-MCA-BEGIN", *texts, "# LLVM-MCA-END", ""] for _, texts in blocks]
    (folder / "blocks.s").write_text("\n".join(line for lines in marked for line in lines))
    call = ["llvm-mca", "-mcpu=skylake", "-iterations=100", "blocks.s"]
    cycles = re.findall(r"^Total Cycles:\s+(\d+)", _run(call, "tool", folder).stdout, re.MULTILINE)
    return round(sum(n * int(c) / 100 for (n, _), c in zip(blocks, cycles, strict=True)))


def _executions(text: str) -> dict[int, int]:
    """Return how often the instruction at each address was executed, from a file of callgrind without compression."""
    found: dict[int, int] = {}
    is_call = False
    for line in text.splitlines():
        if line.startswith("calls="):
            is_call = True
        elif line.startswith("0x"):
            if not is_call:
                address, *_, count = line.split()
                found[int(address, 16)] = found.get(int(address, 16), 0) + int(count)
            is_call = False
    return found


Block = tuple[int, list[str]]
"""How often a block was executed, and its instructions."""


def hot_blocks(
    code: Sequence[tuple[int, str]], counts: Mapping[int, int], share: float = 0.9
) -> list[Block]:
    """Return the blocks with most executed instructions, up to a share of them all."""
    blocks: list[Block] = []
    is_new = True
    for address, text in code:
        count = counts.get(address, 0)
        if count and not text.startswith(("nop", "data16", "cs")):
            if is_new or blocks[-1][0] != count:
                blocks.append((count, []))
            text = re.sub(r"\s*[<#].*$", "", text)
            blocks[-1][1].append(re.sub(r"^(bnd|notrack)\s+", "", text))
        is_new = not count or text.startswith(("j", "ret", "call", "bnd", "notrack"))
    blocks.sort(key=lambda block: -block[0] * len(block[1]))
    total, kept = sum(n * len(texts) for n, texts in blocks), 0
    for i, (n, texts) in enumerate(blocks):
        if kept >= share * total:
            return blocks[:i]
        kept += n * len(texts)
    return blocks


TIMEOUT = 124


def _run(
    words: Sequence[str], limit: str, folder: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program; its environment is always the same, because the start of a program reads all of it."""
    command = [shutil.which(words[0]) or words[0], *words[1:]]
    own = {"capture_output": True, "text": True, "errors": "replace", "check": False}
    fixed = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C"}
    try:
        return subprocess.run(command, cwd=folder, timeout=SECONDS[limit], env=fixed, **own)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, TIMEOUT, "", "")


def _children_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _hash(*parts: Any) -> str:
    if len(parts) == 1 and isinstance(parts[0], bytes):
        return hashlib.sha256(parts[0]).hexdigest()[:24]
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:24]
