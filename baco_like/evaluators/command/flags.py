"""Compiler flags as parameters of a space, and configurations as the words of a command line."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Annotated, Any

from baco_like._tables import TABLE, TEXT, TEXTS, AnyText, Given, Shape, choice, suggestion
from baco_like.evaluators.command.compiler_options import (
    CompilerOptions,
    NumberOption,
    changed_options,
    find_plain,
    opposite,
    pair_of,
    probe_flags,
    read_options,
)
from baco_like.exceptions import SpaceError
from baco_like.parameters import Categorical, Integer, Ordinal, Parameter
from baco_like.spaces.inputs import check_names

ALL = "all"

UNSET = "unset"
"""Value of an option that is not given, where the compiler's own number or state is unknown."""

_SPECIAL = re.compile(
    r"-[fm](?!no-)(associative|reciprocal|rounding|trapping|unsafe|fast|finite)-math|-f(cx-|trapv|wrapv|signaling|signed-z"
    r"|single-precision|math-errno|finite-|float-store|short-|pack-|reg-struct|strict-|allow-store|unconstrained|non-call"
    r"|delete-|exceptions|handle-|harden|stack-|split-stack|keep-gc|save-opt|opt-info|var-tracking|profile|branch-prob"
    r"|asynchronous|unwind|plt|semantic-|parallelize|loop-parallelize|sched-spec-load-d|toplevel|sanitize|fp-int|common)"
)
"""Switches that change what a program computes, its binary interface, its diagnostics or its protection rather than its
speed. ``"all"`` leaves them out; list the ones that your program allows."""

_SPECIAL_NUMBERS = re.compile(
    r"^((hw|k|t|m|df)?asan|[tm]san|analyzer|ggc|lto|ssp|stack-clash|openacc|parloops|tree-parallel|tm|xray|memprof)-"
    r"|^(uninit|use-(after-scope|canonical-types)|integer-share|min-(nondebug|pagesize)|max-errors|(con|de)structive-inter)"
    r"|(^|-)(debug|debugging|diagnostics?|dump|fuzz|print|stats|stress|test|trace|verif\w*|bisect|vartrack|checking)(-|$)"
    r"|allow-codegen-errors|-memory$|conflict-table-size|delay-slot"
    r"|^(profile|pgo|sample-profile|instrprof)-|-feedback$|-bb-count-|profile-count"
)
"""Numbers that ``"all"`` leaves out, by kind: of sanitizers, the analyzer, protections and parallel libraries; bounds
of types and pages, on which the meaning of a program may depend; for debugging, tests and checks of the compiler, or
errors that it is to ignore; limits of its own memory; of instructions with delay slots, and of measured profiles,
which matter only there."""


_VALUES = Shape(anyOf=[{"type": "array"}, TABLE])
_PARAMS = Shape(anyOf=[Shape(TABLE, additionalProperties=_VALUES), choice([ALL])])


@dataclass(frozen=True)
class _Switch:
    name: str
    parameter: Parameter
    flag: str
    opposite: str | None
    defaults: Mapping[str, bool | None]  # by level; None is unknown
    parts: frozenset[str] = frozenset()  # switches that this one sets too

    def words(self, value: Any, level: str) -> Sequence[str]:
        if value == UNSET or bool(value) == self.defaults.get(level, False):
            return ()
        return self.form(value)

    @property
    def pair(self) -> str:
        """The shorter form: the same for a flag and its opposite."""
        return pair_of(self.flag)

    def form(self, value: Any) -> Sequence[str]:
        """Return the flag or its opposite, also where the compiler would choose it."""
        word = None if value == UNSET else self.flag if value else self.opposite
        return () if word is None else (word,)


@dataclass(frozen=True)
class _Number:
    name: str
    parameter: Parameter
    option: str
    form: Sequence[str]
    defaults: Mapping[str, int]  # by level

    def words(self, value: Any, level: str) -> Sequence[str]:
        if value in (UNSET, self.defaults.get(level)):
            return ()
        if self.option.startswith("-"):
            return (f"{self.option}={value}",)
        return [word.format(name=self.option, value=value) for word in self.form]


@dataclass(frozen=True)
class _Group:
    name: str
    parameter: Parameter
    defaults: Mapping[str, str] = field(default_factory=dict)  # by level
    parts: Mapping[str, frozenset[str]] = field(default_factory=dict)  # switches that a member sets

    def words(self, value: Any, level: str) -> Sequence[str]:
        return () if value and value == self.defaults.get(level) else shlex.split(value)


_Item = _Switch | _Number | _Group
"""A parameter, and the words for its value at an optimization level."""


@dataclass(frozen=True, eq=False)
class Flags:
    """The flags of a compiler: parameters for a `Space`, and the command line of each configuration.

    With all parameters at their defaults the command line is the optimization level alone, so the default configuration
    is the compiler's own choice at that level. The names of the parameters are those of the flags as identifiers:
    ``-funroll-loops`` becomes ``funroll_loops``, which constraints can use.

    Attributes:
        on_off: Switches, each a pair: ``-fx`` means ``-fx`` or ``-fno-x``. A flag without an opposite, such as
            ``-march=native``, is given or not. Where the level alone may equal neither form, the default is a third
            value, ``"unset"``. ``"all"``: the compiler's switches that affect the speed
            alone.
        params: Values of options with a number, by name: a list, a range ``{"low": 1, "high": 64, "log": True}``, or a
            parameter. ``max-unroll-times`` is written as ``--param=max-unroll-times=8`` (``-mllvm
            -max-unroll-times=8`` for clang), ``-falign-loops`` as ``-falign-loops=8``. The compiler's own value joins a
            list, or ``"unset"`` if it is unknown. ``"all"``: the compiler's numbers with values around its defaults.
        groups: Mutually exclusive flags, by the name of the parameter: exactly one is given. ``""`` gives none; one
            text may have several words. The first is the default, unless the compiler says which is its own.
        level: The optimization level, or several to choose from (the parameter ``level``; the first is the default).
        compiler: Compiler that is asked for its defaults; ``""`` asks none: a switch that is not given then counts as
            off.
        exclude: Names left out of ``"all"``.
        options: The compiler's options by level, instead of asking it.

    Raises:
        SpaceError: A flag occurs twice, is unknown to the compiler, or is not written like one; a range lacks the
            compiler's own number at a level.
        EvaluatorError: The compiler cannot be asked.
    """

    on_off: Annotated[Sequence[str] | str, Shape(anyOf=[TEXTS, choice([ALL])])] = ()
    params: Annotated[Mapping[str, Any] | str, _PARAMS] = field(default_factory=dict)
    groups: Mapping[str, Sequence[str]] = field(default_factory=dict)
    level: Annotated[str | Sequence[str], Shape(anyOf=[TEXT, TEXTS])] = "-O2"
    compiler: AnyText = "cc"
    exclude: Sequence[str] = ()
    options: Given[Mapping[str, CompilerOptions] | None] = field(default=None, repr=False)
    _items: tuple[_Item, ...] = field(init=False, repr=False)
    _asks: bool = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_asks", self.options is None and bool(self.compiler))
        if self.options is None:
            asked = {x: read_options(self.compiler, x) for x in self.levels if self.compiler}
            object.__setattr__(self, "options", asked)
        items = [*self._level_items(), *self._group_items()]
        items += [*self._switch_items(), *self._number_items()]
        names: dict[str, str] = {}
        for item in items:
            if item.name in names:
                raise SpaceError(f"flags: two of them become the parameter {item.name!r}; list one")
            names[item.name] = item.name
        check_names(names)
        object.__setattr__(self, "_items", tuple(items))

    @property
    def levels(self) -> tuple[str, ...]:
        """The optimization levels; the first is the default."""
        return (self.level,) if isinstance(self.level, str) else tuple(self.level)

    @property
    def parameters(self) -> dict[str, Parameter]:
        """The parameters by name; pass them to a `Space`, with others if you like."""
        return {item.name: item.parameter for item in self._items}

    def words(self, config: Mapping[str, Any]) -> list[str]:
        """Return the words of the command line: the level, then whatever differs from the compiler's choice at it.

        Args:
            config: A configuration; other parameters than those of the flags are ignored, and a flag that it lacks is
                inactive and left to the compiler.
        """
        level = config.get("level", self.levels[0]) if len(self.levels) > 1 else self.levels[0]
        words = [] if len(self.levels) > 1 or not level else [level]
        overridden: set[str] = set()
        for item in self._items:
            if item.name not in config:
                continue
            value = config[item.name]
            own = item.words(value, level)
            if isinstance(item, _Switch):
                if item.pair in overridden:
                    own = item.form(value)
                if own:
                    overridden |= item.parts
            elif isinstance(item, _Group):
                overridden |= item.parts.get(value, frozenset())
            words += own
        return words

    def text(self, config: Mapping[str, Any]) -> str:
        """Return `words` as one text for a shell."""
        return shlex.join(self.words(config))

    # Parameters --------------------------------------------------------------------------------------------------

    def _known(
        self, read: Callable[[CompilerOptions], Mapping[str, Any]], name: str
    ) -> dict[str, Any]:
        """Return the entry of an option by level, at the levels where the compiler has it."""
        options = self.options or {}
        return {level: read(own)[name] for level, own in options.items() if name in read(own)}

    @property
    def _first(self) -> CompilerOptions | None:
        return (self.options or {}).get(self.levels[0])

    def _level_items(self) -> list[_Item]:
        if not self.levels or len(set(self.levels)) != len(self.levels):
            raise SpaceError(
                f"flags: level = {self.level!r}: give one level, or several different ones"
            )
        if len(self.levels) == 1:
            return []
        return [_Group("level", Categorical(list(self.levels), default=self.levels[0]))]

    def _group_items(self) -> list[_Item]:
        items: list[_Item] = []
        for name, members in self.groups.items():
            if not members:
                raise SpaceError(f"flags: the group {name!r} is empty; list its flags")
            for member in members:
                if member and not member.startswith("-"):
                    raise SpaceError(
                        f"flags: {member!r} in the group {name!r}: a flag begins with '-'"
                    )
            alone = self._probe(self.levels[0])
            parts = {}
            for member in members:
                states = self._probe(self.levels[0], *shlex.split(member)) if member else alone
                parts[member] = changed_options(alone, states)
            own = {
                level: f"{option}={word}"
                for level, options in (self.options or {}).items()
                for option, (_, word) in options.choices.items()
                if f"{option}={word}" in members
            }
            default = own.get(self.levels[0], members[0])
            items.append(_Group(name, Categorical(list(members), default=default), own, parts))
        return items

    def _switch_items(self) -> Sequence[_Switch]:
        if isinstance(self.on_off, str):
            listed = [
                name
                for name in self._require_compiler("on_off").switches
                if not _SPECIAL.match(name) and not self._is_excluded(name)
            ]
        else:
            listed = list(self.on_off)
        seen: dict[str, str] = {}
        for flag in listed:
            if not flag.startswith("-") or len(shlex.split(flag)) != 1:
                raise SpaceError(
                    f"flags: on_off has {flag!r}; a flag is one word that begins with '-'"
                )
            pair = pair_of(flag)
            if pair in seen:
                raise SpaceError(f"flags: {seen[pair]} and {flag} are the same switch; list one")
            seen[pair] = flag
        with ThreadPoolExecutor() as pool:
            pairs = {flag: other for flag in listed if (other := self._opposite(flag)) is not None}
            asked = pairs if self._asks and self._has_pairs else {}
            plain = find_plain(self.compiler, self.levels[0], asked, pool)
            items = list(pool.map(lambda flag: self._switch(flag, flag in plain), listed))
        # A switch that sets others comes first; they are then written too.
        return sorted(items, key=lambda item: -len(item.parts))

    def _switch(self, flag: str, is_plain: bool) -> _Switch:
        other = self._opposite(flag)
        if not is_plain:
            self._probe(self.levels[0], flag)
        if other is not None and self._asks and not is_plain:
            try:
                self._probe(self.levels[0], other)
            except SpaceError:
                other = None  # such as -m32: given or not
        parts = frozenset[str]() if is_plain else self._parts(flag, other)
        printed = self._switch_defaults(flag)
        defaults: dict[str, bool | None] = {**printed}
        if other is not None and self._asks and self._has_pairs:
            for level in self.levels:
                if parts or level not in printed:
                    defaults[level] = self._probed_state(level, flag, other)
        default = defaults.get(self.levels[0], False)
        is_unknown = None in defaults.values()
        values = [UNSET, False, True] if is_unknown else [False, True]
        parameter = Categorical(values, default=UNSET if default is None else default)
        return _Switch(_identifier(flag), parameter, flag, other, defaults, parts)

    def _probe(self, level: str, *flags: str) -> Mapping[str, str]:
        return probe_flags(self.compiler, level, *flags) if self._asks else {}

    def _parts(self, flag: str, other: str | None) -> frozenset[str]:
        """Return the other options that a switch sets, such as -ftree-loop-vectorize for -ftree-vectorize."""
        if other is None:
            return frozenset()
        on, off = (self._probe(self.levels[0], form) for form in (flag, other))
        return changed_options(on, off) - {pair_of(flag)}

    def _probed_state(self, level: str, flag: str, other: str) -> bool | None:
        """Compare the states of all options at the level alone, with the flag, and with its opposite.

        GCC prints ``-ftree-vectorize`` as off at ``-O3``, where its parts are on: then only the others count.

        Returns:
            Whether the level alone equals the flag; None if neither form equals it, or both do.
        """
        with suppress(SpaceError):  # a level may refuse what another accepts
            forms = ((), (flag,), (other,))
            full = [self._probe(level, *form) for form in forms]
            rest = [{x: on for x, on in y.items() if pair_of(x) != pair_of(flag)} for y in full]
            for own, on, off in (full, rest):
                if on != off and own in (on, off):
                    return own == on
        return None

    @property
    def _has_pairs(self) -> bool:
        return self._first is None or self._first.has_pairs

    def _opposite(self, flag: str) -> str | None:
        return opposite(flag) if self._has_pairs else f"{flag}=0"

    def _switch_defaults(self, flag: str) -> dict[str, bool]:
        """Return the state of a flag that the compiler prints, by level."""
        known = self._known(lambda own: own.switches, flag)
        other = self._opposite(flag)
        against = {} if other is None else self._known(lambda own: own.switches, other)
        return {level: on for level, on in known.items() if on is not None} | {
            level: not on for level, on in against.items() if on is not None and level not in known
        }

    def _number_items(self) -> list[_Item]:
        if isinstance(self.params, str):
            chosen: Mapping[str, Any] = {
                name: option.values()
                for name, option in self._require_compiler("params").numbers.items()
                if len(option.values()) > 1
                and not _SPECIAL_NUMBERS.search(name)
                and not self._is_excluded(name)
            }
        else:
            chosen = self.params
        form = CompilerOptions().number_words if self._first is None else self._first.number_words
        items: list[_Item] = []
        for name, values in chosen.items():
            known = self._known(lambda own: own.numbers, name)
            if self._first is not None and self._first.numbers and not known and name[0] != "-":
                raise SpaceError(
                    f"flags: {self.compiler} has no parameter {name!r}; {suggestion(name, self._first.numbers)}"
                )
            if name.startswith("-"):
                self._probe(self.levels[0], f"{name}=1")
            defaults = {level: option.default for level, option in known.items()}
            parameter = _number_parameter(
                name, values, known.get(self.levels[0]), defaults.values()
            )
            items.append(_Number(_identifier(name), parameter, name, form, defaults))
        return items

    def _require_compiler(self, key: str) -> CompilerOptions:
        if self._first is None:
            raise SpaceError(
                f'flags: {key} = "all" needs a compiler that can be asked for its flags'
            )
        return self._first

    def _is_excluded(self, name: str) -> bool:
        return name in self.exclude or _identifier(name) in map(_identifier, self.exclude)


def _identifier(flag: str) -> str:
    """Return the parameter's name for a flag."""
    name = re.sub(r"\W", "_", flag.lstrip("-"), flags=re.ASCII)
    return f"_{name}" if name[:1].isdigit() else name


def _number_parameter(
    name: str, values: Any, option: NumberOption | None, own: Collection[int]
) -> Parameter:
    default = None if option is None else option.default
    try:
        if isinstance(values, Mapping):
            return _number_range(name, values, default, own)
        if isinstance(values, (list, tuple, range)):
            _check_values(name, values, option)
            if default is None:
                return Categorical([UNSET, *values], default=UNSET)
            listed = sorted({*values, *own})  # each level alone is a configuration
            return Ordinal(listed, log=listed[0] > 0, default=default)
    except TypeError:
        pass
    if isinstance(values, Parameter):
        return values
    raise SpaceError(
        f"flags: params {name!r} = {values!r:.60}: give a list of numbers, or low and high"
    )


def _number_range(
    name: str, values: Mapping[str, Any], default: int | None, own: Collection[int]
) -> Integer:
    unknown = set(values) - {"low", "high", "log", "default"}
    if unknown or not {"low", "high"} <= set(values):
        raise SpaceError(
            f"flags: params {name!r} = {dict(values)!r:.60}: give low and high, and log if you like"
        )
    given = values.get("default", default)
    needed = own if "default" not in values else [given]
    outside = [x for x in needed if not values["low"] <= x <= values["high"]]
    if outside:
        raise SpaceError(
            f"flags: params {name!r}: the compiler's own value, {outside[0]}, lies outside {values['low']} to "
            f"{values['high']}; widen the range"
        )
    return Integer(values["low"], values["high"], log=values.get("log", False), default=given)


def _check_values(name: str, values: Sequence[int], option: NumberOption | None) -> None:
    """Refuse numbers that the compiler would refuse for every program."""
    low, high = (None, None) if option is None else (option.low, option.high)
    wrong = [v for v in values if (low is not None and v < low) or (high is not None and v > high)]
    if wrong:
        raise SpaceError(
            f"flags: params {name!r}: the compiler allows {low} to {high}, not {wrong[0]}"
        )
