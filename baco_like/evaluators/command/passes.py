"""Passes of a compiler as a parameter of a space, and sequences of them as the text of a pipeline.

A pipeline of LLVM's new pass manager is nested: ``globalopt,cgscc(inline),function(sroa,loop(indvars))``. An element
of a sequence is a pass at its place in this nesting; adjacent elements of one level share a manager.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Annotated, Any

from baco_like._tables import TEXTS, Count, Natural, Shape, choice, suggestion
from baco_like.evaluators.command.compiler_options import ask_program
from baco_like.exceptions import EvaluatorError, SpaceError
from baco_like.parameters import Parameter
from baco_like.parameters import Sequence as PassSequence

ALL = "all"
LEVELS = ("O0", "O1", "O2", "O3", "Os", "Oz")
PASSES = "passes"
"""Name of the parameter, and of the placeholder of its text."""

VERSIONS = range(21, 13, -1)
"""Versions of LLVM that are looked for, the newest first."""

_SECTION = re.compile(r"(Module|CGSCC|Function|LoopNest|Loop) passes(?: with params)?:")

_MANAGERS: Mapping[str, tuple[str, ...]] = {
    "Module": (),
    "CGSCC": ("cgscc",),
    "Function": ("function",),
    "LoopNest": ("function", "loop"),
    "Loop": ("function", "loop"),
}

_NEED_MEMORY_SSA = ("licm", "lnicm")
"""Loop passes that abort outside of ``loop-mssa``; others do not update MemorySSA."""

_SPECIAL = re.compile(
    r"print|verif|view|dot-|debug|dbg|strip|lint|stats|count|warning|remark|report|helloworld|aa-eval|trigger|no-op"
    r"|invalidat|instr(umentation|orderfile|prof)|ee-instrument|gcov|san(-|$)|sancov|prof|pgo|probe|poison|bounds-check"
    r"|add-discrim|synthetic|cfi|lowertype|wholeprogram|cross-dso|coro|objc|statepoint|safepoint|-gc|shadow-stack"
    r"|internalize|extract|import|embed|namer|name-anon|rewrite-symbols|forceattrs|lower-?(atomic|invoke)"
    r"|eh-prepare|stack-protector|safe-stack|codegen|isel|inject-tli"
)
"""Passes that ``"all"`` leaves out: those that print, check or instrument; that serve debugging, profiles, sanitizers,
other languages or code generation; and those that are only correct for some programs, such as ``internalize``."""

_CHOSEN = Shape(
    title='an array of texts, `"all"`, or `"O0"` to `"Oz"`',
    anyOf=[TEXTS, choice([ALL, *LEVELS])],
)

Node = tuple[str, "tuple[Node, ...] | None"]
"""A pass, or a manager with its passes."""


@dataclass(frozen=True, eq=False)
class Passes:
    """The passes of a compiler: a parameter for a `Space`, and the text of each sequence of them.

    Attributes:
        passes: Names of passes, or pipelines such as ``function(gvn)`` as elements. ``"all"``: the passes of LLVM's
            ``opt`` without those that print, verify, instrument or need an argument. ``"O2"`` (``"O0"`` to ``"O3"``,
            ``"Os"``, ``"Oz"``): the passes of this level.
        max_length: Most passes of a sequence.
        min_length: Fewest passes of a sequence.
        distinct: Whether a sequence has each pass at most once.
        start: The default configuration, which is evaluated first; its elements join the passes. By default the whole
            pipeline of a level as one element: ``["default<O2>"]`` for ``"O2"``, else ``["default<Oz>"]``; without
            ``opt`` there is none.
        opt: Name or path of LLVM's ``opt``, which knows the level of each pass and checks the names; by default the
            newest one if a text above or the evaluator needs it, else passes stay unchanged.
        exclude: Names left out of ``"all"`` and of a level.
        form: Words of each pass, such as ``"--{pass}"``, instead of one text of all.

    Raises:
        SpaceError: A pass is unknown to ``opt``, or a bracket has no partner.
        EvaluatorError: There is no ``opt``.
    """

    passes: Annotated[Sequence[str] | str, _CHOSEN]
    max_length: Count = 30
    min_length: Natural = 0
    distinct: bool = False
    start: Sequence[str] | None = None
    opt: str = ""
    exclude: Sequence[str] = ()
    form: str = ""
    elements: tuple[str, ...] = field(init=False)
    default: tuple[str, ...] | None = field(init=False)

    def __post_init__(self) -> None:
        if isinstance(self.passes, str) and not self.opt:
            object.__setattr__(self, "opt", find_opt())
        chosen, default = self._choose()
        start = default if self.start is None else tuple(self.start)
        elements = tuple(dict.fromkeys([*chosen, *(start or ())]))
        object.__setattr__(self, "elements", elements)
        object.__setattr__(self, "default", start)
        for element in elements:
            _parse(element)
        if self.opt and self.passes != ALL:
            _require(self.opt, self.levels, elements)

    @property
    def levels(self) -> Mapping[str, str]:
        """The level of each pass of ``opt``, such as ``Function``; empty without it."""
        return read_passes(self.opt) if self.opt else {}

    @property
    def parameters(self) -> dict[str, Parameter]:
        """The parameter by its name, ``passes``; pass it to a `Space`, with others if you like."""
        longest = max(self.max_length, len(self.default or ()))
        if self.distinct:
            longest = min(longest, len(self.elements))
        parameter = PassSequence(
            self.elements, longest, self.min_length, self.distinct, default=self.default
        )
        return {PASSES: parameter}

    def text(self, sequence: Sequence[str]) -> str:
        """Return a sequence as the text of a pipeline; a plain name of LLVM is put into the managers of its level."""
        return _join(_nest(sequence, self.levels))

    def words(self, config: Mapping[str, Any]) -> str | list[str]:
        """Return what replaces ``{passes}`` in a command: the text of the pipeline, or the words of each pass."""
        sequence = config.get(PASSES, ())
        if not self.form:
            return self.text(sequence)
        return [word.replace("{pass}", each) for each in sequence for word in self.form.split()]

    def _choose(self) -> tuple[Sequence[str], tuple[str, ...] | None]:
        """Return the passes and the default sequence."""
        if not isinstance(self.passes, str):
            return self.passes, ("default<Oz>",) if self.opt else None
        if self.passes == ALL:
            level, names = "Oz", list(self.levels)
        elif self.passes in LEVELS:
            level, names = self.passes, _pipeline(self.opt, self.passes)
        else:
            raise SpaceError(
                f"passes = {self.passes!r}; {suggestion(self.passes, (ALL, *LEVELS))}, or a list"
            )
        chosen = [
            name
            for name in names
            if not _SPECIAL.search(name.partition("<")[0]) and name not in self.exclude
        ]
        return chosen, (f"default<{level}>",)


def find_opt() -> str:
    """Return the newest ``opt`` of LLVM 14 to 21.

    Raises:
        EvaluatorError: No ``opt`` is found.
    """
    for version in VERSIONS:
        for name in (f"opt-{version}", f"/usr/lib/llvm-{version}/bin/opt"):
            if shutil.which(name):
                return name
    if shutil.which("opt"):
        return "opt"
    raise EvaluatorError(
        "there is no opt of LLVM 14 to 21 on PATH; install the package llvm, or name one: [passes] opt"
    )


@cache
def read_passes(opt: str) -> Mapping[str, str]:
    """Return the level of each pass that ``opt --print-passes`` lists, by its name; of two levels the outer one.

    Those with a list of arguments are known by their bare name, and with their only argument:
    ``early-cse<memssa>``.

    Raises:
        EvaluatorError: The program cannot be started, or it is not LLVM's ``opt``.
    """
    levels: dict[str, str] = {}
    level = None
    for line in _ask(opt, "--print-passes").stdout.splitlines():
        if not line.startswith(" "):
            section = _SECTION.fullmatch(line.strip())
            level = section and section[1]
        elif level:
            name, _, arguments = line.strip().partition("<")
            levels.setdefault(name, level)
            if re.fullmatch(r"[a-z-]+>", arguments) and "no-" not in arguments:
                levels.setdefault(f"{name}<{arguments}", level)
    if not levels:
        raise EvaluatorError(f"[passes] opt = {opt!r}: it lists no passes; name LLVM's opt")
    return levels


def _pipeline(opt: str, level: str) -> list[str]:
    """Return the passes of an optimization level that ``opt --print-passes`` lists, in their order."""
    printed = _ask(
        opt, f"-passes=default<{level}>", "--print-pipeline-passes", "-disable-output", "/dev/null"
    ).stdout
    names = [re.sub(r"<;?>|;(?=>)", "", name) for name in _leaves(_parse(printed))]
    return [name for name in names if name.partition("<")[0] in read_passes(opt)]


def _require(opt: str, levels: Mapping[str, str], elements: Sequence[str]) -> None:
    """Raise `SpaceError` if ``opt`` refuses one of the elements."""

    def refusal(*some: str) -> str:
        text = _join(_nest(some, levels))
        asked = _ask(opt, f"-passes={text}", "-disable-output", "/dev/null")
        return "" if asked.returncode == 0 else (asked.stderr.strip() or "it fails").splitlines()[0]

    if elements and refusal(*elements):
        with ThreadPoolExecutor() as pool:
            for element, problem in zip(elements, pool.map(refusal, elements), strict=True):
                if problem:
                    raise SpaceError(
                        f"passes: {element!r}: {problem}; {suggestion(element, levels)[:300]}"
                    )


def _ask(opt: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return ask_program(
        f"[passes] opt = {opt!r} cannot be asked for its passes", "", opt, *arguments
    )


def tool_beside(opt: str, name: str) -> str:
    """Return the tool of the same version: ``llc-14`` for ``opt-14``."""
    path = Path(opt)
    return str(path.with_name(re.sub("^opt", name, path.name)))


# Nesting -------------------------------------------------------------------------------------------------------------


def _parse(text: str) -> tuple[Node, ...]:
    """Return the passes and managers of a text.

    Raises:
        SpaceError: A bracket has no partner.
    """
    levels: list[list[Node]] = [[]]
    managers: list[str] = []
    word, depth = "", 0
    for letter in f"{text.strip()},":
        depth += (letter in "<{") - (letter in ">}")  # options of a pass may contain commas
        if depth > 0 or letter not in "(),":
            word += letter
            continue
        if letter == "(":
            managers.append(word)
            levels.append([])
        elif word:
            levels[-1].append((word, None))
        word = ""
        if letter == ")" and managers:
            inner = tuple(levels.pop())
            levels[-1].append((managers.pop(), inner))
        elif letter == ")":
            depth = -1
        if depth:
            break
    if depth or managers or not levels[0]:
        raise SpaceError(f"passes: {text!r:.100} is not a pass: a bracket has no partner")
    return tuple(levels[0])


def _leaves(nodes: Sequence[Node]) -> Iterator[str]:
    for name, inner in nodes:
        if inner is None:
            yield name
        else:
            yield from _leaves(inner)


def _nest(elements: Sequence[str], levels: Mapping[str, str]) -> list[Node]:
    """Return the elements in the managers of their levels."""
    nodes: list[Node] = []
    for element in elements:
        for name, inner in _parse(element):
            base = name.partition("<")[0]
            managers = _MANAGERS[levels.get(name) or levels.get(base, "Module")]
            if inner is not None:
                managers = ("function",) if levels and base in ("loop", "loop-mssa") else ()
            elif base in _NEED_MEMORY_SSA and managers:
                managers = ("function", "loop-mssa")
            node: Node = (name, inner)
            for manager in reversed(managers):
                node = (manager, (node,))
            nodes.append(node)
    return nodes


def _join(nodes: Sequence[Node]) -> str:
    """Return the text; adjacent managers of the same name without options become one."""
    merged: list[Node] = []
    for name, inner in nodes:
        if inner is not None and merged and "<" not in name:
            last, before = merged[-1]
            if last == name and before is not None:
                merged[-1] = (name, (*before, *inner))
                continue
        merged.append((name, inner))
    return ",".join(name if inner is None else f"{name}({_join(inner)})" for name, inner in merged)
