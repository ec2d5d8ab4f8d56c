"""The keys of the tables of a run file, for the reader, the reference page and the JSON Schema."""

from __future__ import annotations

from typing import get_args

from baco_like.evaluators.settings_table import (
    FLAG,
    NUMBER,
    POSITIVE,
    SHARE,
    TEXT,
    TEXTS,
    Key,
    choice,
    keys_of,
    shapes_of,
    table_shape,
    whole,
)
from baco_like.journal.header import MODES
from baco_like.parameters.registry import find_type
from baco_like.records import Direction, Noise
from baco_like.records.covering import Aggregate
from baco_like.running.confirming import SIMPLIFY
from baco_like.running.measuring import RECHECK
from baco_like.strategies.registry import find_maker

CONSTRAINTS = (
    Key(
        "known",
        TEXTS,
        "[expressions](../spaces.md#known-constraints) that every configuration satisfies",
        default=[],
    ),
    Key(
        "limits",
        TEXTS,
        '[limits on metrics](../flags.md#keep-size-energy-and-counters), such as `"size <= 40000"`',
        default=[],
    ),
    Key(
        "soft_limits",
        {"type": "object", "additionalProperties": POSITIVE},
        "[limits that may be exceeded](../flags.md#soft-limits): the cost of exceeding each by 100 %, such as "
        '`{ "size <= 40000" = 8.0 }`',
        default={},
    ),
)

_DIRECTION = choice(get_args(Direction))

OBJECTIVE = (
    Key("name", TEXT, "name of the measured value", default="value"),
    Key(
        "unit",
        TEXT,
        "shown in tables and plots; evaluators that measure time need `s`, `ms`, `us` or `ns`",
        default="",
    ),
    Key("direction", _DIRECTION, "which values are better", default="minimize"),
    Key(
        "exact",
        FLAG,
        "whether each measurement gives the same value, as for sizes and counts; such a value is measured once. "
        "Sizes in `[evaluator.metrics]` are exact by themselves",
        default=False,
    ),
    Key("peak", POSITIVE, "best value that the machine allows, for [the report](../report.md)"),
)


def _rule(percent: float, meaning: str) -> tuple[Key, ...]:
    shape = {"type": "number", "minimum": 0, "exclusiveMaximum": 100}
    return (
        Key("evaluations", whole(1), "number of evaluations", required=True),
        Key("percent", shape, meaning, default=percent),
    )


NO_IMPROVEMENT = _rule(0.0, "smallest improvement that counts")
OUTLOOK = _rule(1.0, "expected improvement below which the run ends; above 0")

BUDGET = (
    Key(
        "evaluations",
        whole(1),
        "largest number of evaluations",
        absent="no limit; then `seconds` is required",
    ),
    Key(
        "builds",
        whole(1),
        "largest number of builds, [equal programs](../flags.md#equal-programs) included; as many as `evaluations`: "
        "equal programs count as evaluations",
        absent="10 for each evaluation",
    ),
    Key(
        "seconds",
        POSITIVE,
        "limit of the wall time; without `evaluations`, [short evaluations](../seconds.md) are preferred",
        absent="no limit",
    ),
    Key("target", NUMBER, "end when the best value is this one or better"),
    Key(
        "no_improvement",
        {"anyOf": [whole(1), table_shape(NO_IMPROVEMENT)]},
        "end after so many evaluations without a new best value; `{ evaluations = 40, percent = 1 }`: without one "
        "that is 1 % better",
    ),
    Key(
        "outlook",
        {"anyOf": [whole(1), table_shape(OUTLOOK)]},
        "end when the next so many evaluations are expected to improve the best value by less than 1 %; "
        "`{ evaluations = 50, percent = 0.5 }`: by less than 0.5 %; "
        "see [the outlook](../explain.md#stop-when-little-is-left)",
    ),
    Key(
        "max_failures",
        whole(1),
        "end after so many failures; configurations beyond a limit do not count",
    ),
    Key(
        "identical_failures",
        whole(0),
        "end with exit code 1 if so many evaluations in a row fail with the same message before the first success; 0: "
        "never",
        default=10,
    ),
)

OPTIMIZER = (
    Key("strategy", TEXT, "a [strategy](../strategies.md)", default="auto"),
    Key("seed", whole(0), "the seed of the run", default=0),
    Key("initial", whole(1), "size of the initial design", absent="the strategy's own"),
    Key(
        "noise",
        choice(get_args(Noise)),
        '`"repeat"`: a configuration may be suggested again, as `racing` needs it',
        default="none",
    ),
    Key(
        "threads",
        whole(0),
        "threads [of a suggestion](../default_strategy.md#threads); 0: no limit",
        absent="`BACO_LIKE_THREADS`, or 1",
    ),
    Key(
        "ahead",
        whole(0),
        "proposals that are computed [ahead of time](../many_workers.md), while configurations are measured; 0: none",
        default=0,
    ),
)

CONFIRMATION = (
    Key("top", whole(1), "candidates besides the default configuration", default=3),
    Key("rounds", whole(1), "largest number of rounds", absent="no limit"),
    Key(
        "evaluations",
        {"title": "a whole number, or a share below 1", "anyOf": [whole(1), SHARE]},
        "largest number of measurements, or a share of the run's evaluations, but then at least 15 (or as many as the "
        "run has evaluations)",
        default=0.1,
    ),
    Key("confidence", SHARE, "probability of the intervals and of the ranking", default=0.95),
    Key("tolerance", POSITIVE, "relative difference that does not matter", default=0.01),
    Key(
        "simplify",
        {"title": "a whole number, or a share below 1", "anyOf": [whole(0), SHARE]},
        "largest number of measurements, or a share of the run's builds, to [return parameters of the winner to their "
        "defaults](../flags.md#the-smallest-winner); 0: none",
        default=SIMPLIFY,
    ),
)

DRIFT = (
    Key(
        "every",
        whole(0),
        "evaluations from one control measurement to the next; 0: none",
        absent=f'{RECHECK}; 0 for `kind = "replay"` and with `[tasks]`',
    ),
    Key("threshold", POSITIVE, "relative change that counts as drift", default=0.05),
)

FIDELITY = {
    "type": "object",
    "description": "one parameter that makes evaluations cheaper, with its values; the last one is the target",
    "additionalProperties": {"type": "array", "minItems": 2},
    "maxProperties": 1,
}
"""The JSON Schema of the table ``[fidelity]``; its only key is a name that the user chooses."""

TASKS = (
    Key(
        "list",
        {
            "title": "an array of tables, such as `[{ n = 512 }, { n = 4096 }]`, or of names",
            "type": "array",
            "minItems": 1,
            "items": {"anyOf": [{"type": "object"}, {"type": "string"}]},
        },
        "the descriptors of the tasks",
        required=True,
    ),
    Key(
        "goal",
        {
            "title": "`each`, `single` or a number of configurations",
            "anyOf": [choice(("each", "single")), whole(1)],
        },
        "`each`: the best configuration of each task; `single`: one for all",
        default="each",
    ),
    Key(
        "within",
        {"type": "number", "minimum": 1},
        "instead of `goal`: the fewest configurations whose combined slowdown is at most this",
    ),
    Key(
        "aggregate",
        choice(get_args(Aggregate)),
        "how the slowdowns of the tasks are combined",
        default="geometric_mean",
    ),
    Key(
        "constraints",
        {"type": "object", "additionalProperties": TEXTS},
        'further known constraints by name of a task, such as `"n=512" = ["tile <= 32"]`',
        default={},
    ),
)

WARM_START = (
    Key("file", TEXT, "the earlier results; relative paths start at the run file", required=True),
    Key(
        "mode",
        choice(MODES),
        "`data`: results of the same task; `configs`: try their best configurations first; `prior`: results of a "
        "related task",
        default="data",
    ),
    Key("best", whole(1), "with `configs`: number of configurations", default=5),
    Key("rows", whole(3), "with `prior`: largest number of results", default=300),
    Key("objective", TEXT, "the measurement to use, if the file has several", absent="the run's"),
    Key(
        "task",
        {
            "title": "a name, or a table such as `{ n = 512 }`",
            "anyOf": [{"type": "string"}, {"type": "object"}],
        },
        "with `[tasks]`: the task that the results belong to",
    ),
    Key("large", FLAG, "the file may have more than 64 MiB, unpacked", default=False),
)


WHEN = Key(
    "when",
    TEXT,
    "an [expression](../spaces.md#conditional-parameters); the parameter is active only where it is true",
    absent="always active",
)


def parameter_keys(type_name: str) -> tuple[Key, ...]:
    """Return the keys of a parameter besides ``type``: the arguments of the type's constructor, and its condition."""
    make = find_type(type_name)
    return (*keys_of(make, shapes_of(make)), WHEN)


def strategy_keys(name: str) -> tuple[Key, ...]:
    """Return the settings of a strategy, which are keys of ``[optimizer]``."""
    make = find_maker(name)
    common = {key.name for key in OPTIMIZER}
    shapes = {key: shape for key, shape in shapes_of(make).items() if key not in common}
    return keys_of(make, shapes)
