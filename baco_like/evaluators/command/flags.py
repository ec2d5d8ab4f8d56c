"""Compiler flags as parameters of a space, and configurations as the words of a command line."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from baco_like.evaluators.command.compilers import CompilerOptions, NumberOption, read_options
from baco_like.evaluators.settings_table import (
    ARRAY,
    TABLE,
    TEXT,
    TEXTS,
    Shape,
    Table,
    keys_of,
    suggestion,
)
from baco_like.exceptions import SpaceError
from baco_like.parameters import Categorical, Integer, Ordinal, Parameter
from baco_like.spaces.inputs import check_names

ALL = "all"

UNSET = "unset"
"""Value of an option with a number that is not given, where the compiler's own number is unknown."""

_SPECIAL = re.compile(
    r"-[fm](?!no-)(associative|reciprocal|rounding|trapping|unsafe|fast|finite)-math|-f(cx-|trapv|wrapv|signaling|signed-z"
    r"|single-precision|math-errno|finite-|float-store|short-|pack-|reg-struct|strict-|allow-store|unconstrained|non-call"
    r"|delete-|exceptions|handle-|harden|stack-|split-stack|keep-gc|save-opt|opt-info|var-tracking|profile|branch-prob"
    r"|asynchronous|unwind|plt|semantic-|parallelize|loop-parallelize|sched-spec-load-d|toplevel|sanitize|fp-int|common)"
)
"""Switches that change what a program computes, its binary interface, its diagnostics or its protection rather than its
speed. ``"all"`` leaves them out; list the ones that your program allows."""

_SPECIAL_NUMBERS = re.compile(
    r"(hw|k|t)?asan-|analyzer-|ggc-|lto-|uninit|diagnostic|max-(errors|.*help)|(con|de)structive-inter|ssp-|openacc|parloops"
    r"|min-nondebug|tree-parallel|ranger-debug|tsan-"
)


@dataclass(frozen=True)
class _Switch:
    name: str
    parameter: Parameter
    flag: str
    opposite: str | None
    defaults: Mapping[str, bool]  # by level

    def words(self, value: Any, level: str) -> Sequence[str]:
        if bool(value) == self.defaults.get(level, False):
            return ()
        return [word for word in (self.flag if value else self.opposite,) if word is not None]


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

    def words(self, value: Any, level: str) -> Sequence[str]:
        return shlex.split(value)


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
            ``-march=native``, is given or not. ``"all"``: the compiler's switches that affect the speed
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
        SpaceError: A flag occurs twice, is unknown to the compiler, or is not written like one.
        EvaluatorError: The compiler cannot be asked.
    """

    on_off: Sequence[str] | str = ()
    params: Mapping[str, Any] | str = field(default_factory=dict)
    groups: Mapping[str, Sequence[str]] = field(default_factory=dict)
    level: str | Sequence[str] = "-O2"
    compiler: str = "cc"
    exclude: Sequence[str] = ()
    options: Mapping[str, CompilerOptions] | None = field(default=None, repr=False)
    _items: tuple[_Item, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
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

    @classmethod
    def from_table(cls, table: Table) -> Flags:
        """Read the ``[flags]`` table of a run file; its keys are the attributes of this class.

        Raises:
            RunFileError: A key is unknown or has the wrong type.
            SpaceError: As for `Flags`.
            EvaluatorError: The compiler cannot be asked.
        """
        return cls(**table.read(FLAGS_KEYS))

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
            config: A configuration; other parameters than those of the flags are ignored.
        """
        level = config.get("level", self.levels[0]) if len(self.levels) > 1 else self.levels[0]
        words = [] if len(self.levels) > 1 or not level else [level]
        for item in self._items:
            words += item.words(config[item.name], level)
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
            own = [f"{n}={word}" for n, (_, word) in self._choices().items()]
            default = next((member for member in members if member in own), members[0])
            items.append(_Group(name, Categorical(list(members), default=default)))
        return items

    def _choices(self) -> Mapping[str, tuple[tuple[str, ...], str | None]]:
        return {} if self._first is None else self._first.choices

    def _switch_items(self) -> list[_Item]:
        if isinstance(self.on_off, str):
            listed = [
                name
                for name in self._required("on_off").switches
                if not _SPECIAL.match(name) and not self._is_excluded(name)
            ]
        else:
            listed = list(self.on_off)
        items: list[_Item] = []
        seen: dict[str, str] = {}
        for flag in listed:
            if not flag.startswith("-") or len(shlex.split(flag)) != 1:
                raise SpaceError(
                    f"flags: on_off has {flag!r}; a flag is one word that begins with '-'"
                )
            other = self._opposite(flag)
            pair = min(flag, other or flag, key=len)
            if pair in seen:
                raise SpaceError(f"flags: {seen[pair]} and {flag} are the same switch; list one")
            seen[pair] = flag
            defaults = self._switch_defaults(flag)
            default = defaults.get(self.levels[0], False)
            parameter = Categorical([False, True], default=default)
            items.append(_Switch(_identifier(flag), parameter, flag, other, defaults))
        return items

    def _opposite(self, flag: str) -> str | None:
        has_pairs = self._first is None or self._first.has_pairs
        return opposite(flag) if has_pairs else f"{flag}=0"

    def _switch_defaults(self, flag: str) -> dict[str, bool]:
        """Return the compiler's own state of a flag, by level."""
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
                for name, option in self._required("params").numbers.items()
                if len(option.values()) > 1
                and not _SPECIAL_NUMBERS.match(name)
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
            defaults = {level: option.default for level, option in known.items()}
            parameter = _number_parameter(name, values, known.get(self.levels[0]))
            items.append(_Number(_identifier(name), parameter, name, form, defaults))
        return items

    def _required(self, key: str) -> CompilerOptions:
        if self._first is None:
            raise SpaceError(
                f'flags: {key} = "all" needs a compiler that can be asked for its flags'
            )
        return self._first

    def _is_excluded(self, name: str) -> bool:
        return name in self.exclude or _identifier(name) in map(_identifier, self.exclude)


_ALL: Shape = {"enum": [ALL]}

FLAGS_KEYS = tuple(
    replace(key, default=default)
    for key, default in zip(
        keys_of(
            Flags,
            {
                "on_off": {"anyOf": [TEXTS, _ALL]},
                "params": {
                    "anyOf": [
                        {"type": "object", "additionalProperties": {"anyOf": [ARRAY, TABLE]}},
                        _ALL,
                    ]
                },
                "groups": {"type": "object", "additionalProperties": TEXTS},
                "level": {"anyOf": [TEXT, TEXTS]},
                "compiler": {"type": "string"},
                "exclude": TEXTS,
            },
        ),
        ([], {}, {}, "-O2", "cc", []),
        strict=True,
    )
)
"""Keys of the table ``[flags]`` of a run file."""


def opposite(flag: str) -> str | None:
    """Return ``-fno-x`` for ``-fx`` and the other way round, or None for a flag without an opposite."""
    match = re.fullmatch(r"(-[fmW])(no-)?([a-zA-Z0-9][\w-]*)", flag)
    if match is None:
        return None
    start, negated, name = match.groups()
    return f"{start}{name}" if negated else f"{start}no-{name}"


def _identifier(flag: str) -> str:
    """Return the parameter's name for a flag."""
    name = re.sub(r"\W", "_", flag.lstrip("-"), flags=re.ASCII)
    return f"_{name}" if name[:1].isdigit() else name


def _number_parameter(name: str, values: Any, option: NumberOption | None) -> Parameter:
    default = None if option is None else option.default
    try:
        if isinstance(values, Mapping):
            return _number_range(name, values, default)
        if isinstance(values, (list, tuple, range)):
            _check_values(name, values, option)
            if default is None:
                return Categorical([UNSET, *values], default=UNSET)
            listed = sorted({*values, default})
            return Ordinal(listed, log=listed[0] > 0, default=default)
    except TypeError:
        pass
    if isinstance(values, Parameter):
        return values
    raise SpaceError(
        f"flags: params {name!r} = {values!r:.60}: give a list of numbers, or low and high"
    )


def _number_range(name: str, values: Mapping[str, Any], default: int | None) -> Integer:
    unknown = set(values) - {"low", "high", "log", "default"}
    if unknown or not {"low", "high"} <= set(values):
        raise SpaceError(
            f"flags: params {name!r} = {dict(values)!r:.60}: give low and high, and log if you like"
        )
    given = values.get("default", default)
    if given is not None and not values["low"] <= given <= values["high"]:
        raise SpaceError(
            f"flags: params {name!r}: the compiler's own value, {given}, lies outside {values['low']} to "
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
