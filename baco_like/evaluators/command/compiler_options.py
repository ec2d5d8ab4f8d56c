"""Ask a compiler for its options: switches, numbers and choices, with its own defaults at one optimization level.

GCC prints them by ``-Q --help=optimizers`` and ``-Q --help=params``, LLVM's tools by ``--help-list-hidden`` (the types)
and ``--print-all-options`` (the defaults). Clang has further switches (``--help-hidden``, without defaults) and
passes LLVM's options on (``-mllvm``).
"""

from __future__ import annotations

import math
import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from baco_like.exceptions import EvaluatorError, SpaceError

_SECONDS = 60.0

_GCC_SWITCH = re.compile(r"^  (-[fm][\w-]+)\s+\[(enabled|disabled)\]", re.MULTILINE)
_GCC_NUMBER = re.compile(
    r"^  --param=([\w-]+)=(?:<(-?\d+),(-?\d+)>)?[ \t]+(-?\d+)[ \t]*$", re.MULTILINE
)
_GCC_CHOICE = re.compile(
    r"^  (-[fm][\w-]+|--param=[\w-]+)=\[([^\]\n]+)\][ \t]+(\S+)[ \t]*$", re.MULTILINE
)
_GCC_STATE = re.compile(r"^  (-\S+)[ \t]+(\S.*)$", re.MULTILINE)
_REFUSAL = re.compile(
    r"(unrecogni[sz]ed|unknown argument|Unknown command line argument|bad value|unsupported argument"
    r"|invalid value|is not a valid).*"
)
_CLANG_SWITCH = re.compile(r"^  (-[fm][a-z][\w-]*)(?=[ \t]|$)", re.MULTILINE)
_LLVM_OPTION = re.compile(r"^  --?([\w-]+)(?:=<(\w+)>)?[ \t]+-[ \t]", re.MULTILINE)
_LLVM_CHOICE = re.compile(r"^    =([\w-]+)", re.MULTILINE)
_LLVM_DEFAULT = re.compile(r"^  --?([\w-]+)[ \t]+= .*?\(default: ([^)\n]*)\)[ \t]*$", re.MULTILINE)
_WHOLE_NUMBERS = ("int", "uint", "long", "ulong", "number", "unsigned")

_COMPILER = re.compile(
    r"(?:[\w.-]+-)?(?:gcc|g\+\+|cc|c\+\+|clang|clang\+\+|gfortran|icx|icpx|nvcc|hipcc|rustc|opt)(?:-[\d.]+)?"
)
"""Names of compilers that answer ``--version``."""

_LARGEST = 2**31 - 1


@dataclass(frozen=True)
class NumberOption:
    """An option that takes a whole number.

    Attributes:
        default: The compiler's own value.
        low: Smallest allowed value, or None if the compiler does not say.
        high: Largest allowed value, or None.
    """

    default: int
    low: int | None = None
    high: int | None = None

    def values(self) -> list[int]:
        """Return values worth trying: all of a small range, else the default times powers of 2 from 1/8 to 8.

        Returns:
            Increasing values with the default among them; an empty list if the default is 0 or below and the range is
            not small, because then nothing says which values make sense.
        """
        if self.low is not None and self.high is not None and self.high - self.low < 8:
            return list(range(self.low, self.high + 1))
        if self.default <= 0:
            return []
        low, high = max(self.low or 1, 1), self.high or _LARGEST
        scaled = (round(self.default * 2.0**power) for power in range(-3, 4))
        return sorted({value for value in scaled if low <= value <= high} | {self.default})


@dataclass(frozen=True)
class CompilerOptions:
    """The options of a compiler at one optimization level.

    Attributes:
        switches: Whether each switch, such as ``-funroll-loops``, is on; None if the compiler does not say.
        numbers: Options with a whole number, by name: ``max-unroll-times`` for GCC, ``unroll-count`` for LLVM.
        choices: Options with words, such as ``-fvect-cost-model``: the words, and the compiler's own, or None.
        number_words: The words of an option with a number, with ``{name}`` and ``{value}``.
        has_pairs: Whether ``-fno-x`` is the opposite of ``-fx``; otherwise it is ``-fx=0``, as for LLVM's tools.
    """

    switches: Mapping[str, bool | None] = field(default_factory=dict)
    numbers: Mapping[str, NumberOption] = field(default_factory=dict)
    choices: Mapping[str, tuple[tuple[str, ...], str | None]] = field(default_factory=dict)
    number_words: tuple[str, ...] = ("--param={name}={value}",)
    has_pairs: bool = True


def parse_gcc(text: str) -> CompilerOptions:
    """Return the options in the output of ``gcc -O2 -Q --help=optimizers`` and ``--help=params``, in any order.

    Options that GCC lists without a value, or only for another language, are left out.
    """
    choices = {}
    for name, words, default in _GCC_CHOICE.findall(text):
        known = tuple(words.split("|"))
        choices[name] = (known, default if default in known else None)
    return CompilerOptions(
        switches={name: state == "enabled" for name, state in _GCC_SWITCH.findall(text)},
        numbers={
            name: NumberOption(int(value), *(int(end) if end else None for end in (low, high)))
            for name, low, high, value in _GCC_NUMBER.findall(text)
        },
        choices=choices,
    )


def parse_llvm(types: str, defaults: str, prefix: str = "") -> CompilerOptions:
    """Return the options of ``opt``, ``llc`` or, through ``-mllvm``, of clang.

    Args:
        types: The output of ``--help-list-hidden``.
        defaults: The output of ``--print-all-options``.
        prefix: Word before each option: ``-mllvm`` for clang.
    """
    values = dict(_LLVM_DEFAULT.findall(defaults))
    switches: dict[str, bool | None] = {}
    numbers, choices = {}, {}
    options = list(_LLVM_OPTION.finditer(types))
    ends = [option.start() for option in options[1:]] + [len(types)]
    for option, end in zip(options, ends, strict=True):
        name, kind = option.groups()
        value = values.get(name, "").strip()
        words = _LLVM_CHOICE.findall(types[option.end() : end])
        if kind is None and value in ("0", "1"):
            switches[f"-{name}"] = value == "1"
        elif kind in _WHOLE_NUMBERS and re.fullmatch(r"-?\d{1,10}", value):
            numbers[name] = NumberOption(int(value), 0 if kind.startswith("u") else None)
        elif kind == "value" and words:
            choices[f"-{name}"] = (tuple(words), value if value in words else None)
    form = (*([prefix] if prefix else []), "-{name}={value}")
    return CompilerOptions(switches, numbers, choices, form, has_pairs=False)


def parse_clang(text: str) -> dict[str, bool | None]:
    """Return the switches in the output of ``clang --help-hidden``; clang does not say which are on.

    ``-fx`` and ``-fno-x`` are one switch.
    """
    listed = dict.fromkeys(_CLANG_SWITCH.findall(text))
    return {
        name: None
        for name in listed
        if not (name[2:5] == "no-" and f"{name[:2]}{name[5:]}" in listed)
    }


@cache
def read_options(program: str, level: str = "-O2") -> CompilerOptions:
    """Ask a compiler for its options.

    Args:
        program: ``gcc``, ``g++``, ``cc``, ``clang``, ``opt``, ``llc``, or the path of one.
        level: The optimization level at which the defaults are read.

    Raises:
        EvaluatorError: The program does not exist, or it is not one of these compilers.
    """
    version = _run(program, "--version")
    if "clang" in version:
        compiled = ("-c", "-x", "c", "/dev/null", "-o", "/dev/null", level)
        inner = parse_llvm(
            _run(program, *compiled, "-mllvm", "--help-list-hidden"),
            _run(program, *compiled, "-mllvm", "--print-all-options"),
            "-mllvm",
        )
        own = parse_clang(_run(program, "--help-hidden"))
        return CompilerOptions(own, inner.numbers, {}, inner.number_words)
    if "LLVM version" in version:
        return parse_llvm(
            _run(program, "--help-list-hidden"),
            _run(program, level, "--print-all-options", "/dev/null", "-o", "/dev/null"),
        )
    kinds = ("optimizers", "params")
    text = "\n".join(_run(program, level, "-Q", f"--help={kind}") for kind in kinds)
    options = parse_gcc(text)
    if options.switches:
        return options
    raise EvaluatorError(
        f"compiler = {program!r}: it is neither GCC, clang nor a tool of LLVM, so it cannot be asked for its "
        "defaults; write compiler = '' to ask none"
    )


@cache
def probe_flags(program: str, level: str, *flags: str) -> Mapping[str, str]:
    """Return the state of the compiler's options with these flags, for comparisons, without compiling.

    GCC prints its optimizers and target options, clang the command of its inner compiler (``-###``). A tool of LLVM
    prints neither: the states are empty.

    Raises:
        SpaceError: The compiler refuses the flags; the message is the compiler's own.
        EvaluatorError: The compiler cannot be started.
    """
    version = _version(program)
    before = (level, *flags) if level else flags
    if "clang" in version:
        text = _run(program, *before, "-###", "-c", "-x", "c", "/dev/null", "-o", "/dev/null")
        states = {word: "" for word in re.findall(r'"([^"]*)"', text)}
    elif "LLVM" in version:
        text, states = _run(program, *before, "/dev/null", "-o", "/dev/null"), {}
    else:
        text = _run(program, *before, "-Q", "--help=optimizers", "--help=target")
        states = {name: state.strip() for name, state in _GCC_STATE.findall(text)}
    refusal = _REFUSAL.search(text)
    if refusal:
        raise SpaceError(f"flags: {program} refuses {' '.join(flags)}: {refusal[0].strip()}")
    return states


def opposite(flag: str) -> str | None:
    """Return ``-fno-x`` for ``-fx`` and the other way round, or None for a flag without an opposite."""
    match = re.fullmatch(r"(-[fmW])(no-)?([a-zA-Z0-9][\w-]*)", flag)
    if match is None:
        return None
    start, negated, name = match.groups()
    return f"{start}{name}" if negated else f"{start}no-{name}"


def pair_of(flag: str) -> str:
    """Return the shorter of a flag and its opposite."""
    return min(flag, opposite(flag) or flag, key=len)


def changed_options(states: Mapping[str, str], others: Mapping[str, str]) -> frozenset[str]:
    """Return the options, in their shorter form, with different states."""
    return frozenset(pair_of(x) for x in {*states, *others} if states.get(x) != others.get(x))


def find_plain(
    program: str, level: str, pairs: Mapping[str, str], pool: Executor
) -> frozenset[str]:
    """Return the switches that the compiler knows in both forms and that set no others, by few questions.

    The compiler is asked about many switches at once. They are the cells of a square: a switch that sets another one in
    its row is in another column.

    Args:
        program: The compiler.
        level: The optimization level.
        pairs: The opposite of each switch.
        pool: Asks about the rows and columns.
    """

    def plain_among(flags: Sequence[str], is_known: bool = False) -> Sequence[str]:
        """Return the plain switches of a group by bisection; ``is_known``: not all of them are."""
        if not flags or (is_known and len(flags) == 1):
            return ()
        if not is_known:
            with suppress(SpaceError):
                on = probe_flags(program, level, *flags)
                off = probe_flags(program, level, *(pairs[flag] for flag in flags))
                if changed_options(on, off) <= {pair_of(flag) for flag in flags}:
                    return flags
            if len(flags) == 1:
                return ()
        half = len(flags) // 2
        first = plain_among(flags[:half])
        return (*first, *plain_among(flags[half:], is_known=len(first) == half))

    flags, size = list(pairs), math.isqrt(len(pairs)) + 1
    rows = [flags[at : at + size] for at in range(0, len(flags), size)]
    in_rows = {flag for found in pool.map(plain_among, rows) for flag in found}
    columns = [[flag for flag in flags[at::size] if flag in in_rows] for at in range(size)]
    return frozenset(flag for found in pool.map(plain_among, columns) for flag in found)


def is_compiler_name(program: str) -> bool:
    """Whether a program has the name of a known compiler, with or without a folder."""
    return _COMPILER.fullmatch(os.path.basename(program)) is not None


def describe_compiler(settings: Mapping[str, Any]) -> str:
    """Return the first line of a compiler's ``--version``, or an empty text.

    Args:
        settings: Settings of an evaluator. The compiler is ``compiler``, ``flags.compiler``, ``passes.opt``, or the
            first word of ``build`` if it has the name of a known compiler: an unknown program is not started.
    """
    named = [settings.get("compiler"), *compilers_of_tables(settings)]
    build = settings.get("build")
    words = build.split() if isinstance(build, str) else build
    first = words[0] if isinstance(words, Sequence) and words else None
    if isinstance(first, str) and is_compiler_name(first):
        named.append(first)
    program = next((name for name in named if isinstance(name, str) and name), None)
    return "" if program is None else _version(program)


def compilers_of_tables(settings: Mapping[str, Any]) -> list[Any]:
    """Return the programs that the tables ``[flags]`` and ``[passes]`` start to ask them, None where none is named."""
    flags, passes = settings.get("flags"), settings.get("passes")
    return [
        flags.get("compiler", "cc") if isinstance(flags, Mapping) else None,
        passes.get("opt") if isinstance(passes, Mapping) else None,
    ]


@cache
def _version(program: str) -> str:
    with suppress(EvaluatorError):
        lines = _run(program, "--version").splitlines()
        return next((line.strip() for line in lines if line.strip()), "")[:200]
    return ""


def _run(program: str, *arguments: str) -> str:
    where = f"compiler = {program!r} cannot be asked for its defaults"
    way_out = '; name an installed compiler, or write compiler = "" to ask none'
    finished = ask_program(where, way_out, program, *arguments)
    # opt prints its options, then complains about the empty input.
    return f"{finished.stdout}\n{finished.stderr}"


def ask_program(
    where: str, way_out: str, program: str, *arguments: str
) -> subprocess.CompletedProcess[str]:
    """Return the answer of a compiler, in English.

    Args:
        where: Begin of the message.
        way_out: End of the message.
        program: The program.
        arguments: Its arguments.

    Raises:
        EvaluatorError: It cannot be started, or does not answer.
    """
    try:
        return subprocess.run(
            [program, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_SECONDS,
            check=False,
            env={**os.environ, "LC_ALL": "C"},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        reason = getattr(error, "strerror", None) or f"no answer in {_SECONDS:g} s"
        raise EvaluatorError(f"{where}: {reason}{way_out}") from None
