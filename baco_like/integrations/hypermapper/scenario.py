"""Read the run settings of a scenario of BaCO or HyperMapper (2 or 3); `spaces.formats.baco` reads its space."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from baco_like.exceptions import RunFileError
from baco_like.integrations.hypermapper.files import is_inside, is_valid
from baco_like.records.objective_values import finite_number
from baco_like.results.hypermapper_csv import Feasibility, Layout
from baco_like.spaces.formats.baco import read_baco
from baco_like.spaces.space import Space

_DESIGNS: Mapping[str, str] = {
    "random sampling": "uniform",
    "embedding random sampling": "biased_walk",
    "standard latin hypercube": "latin_hypercube",
    "k latin hypercube": "latin_hypercube",
}

_STRATEGIES_BY_MODEL: Mapping[str, str] = {
    "gaussian_process": "bayesian",
    "random_forest": "random_forest",
    "default": "auto",
}

_DEFAULT_BEHAVIOUR: Mapping[str, Any] = {
    "acquisition_function": "EI",
    "acquisition_function_optimizer": "local_search",
    "allow_duplicate_samples": False,
    "epsilon_greedy_threshold": 0,
    "number_of_repetitions": 1,
    "print_best": False,
    "print_posterior_best": False,
    "standardize_objectives": True,
}
"""Ignored fields that need no note if they have these values, because this package does the same."""

_BATCH_FIELDS = (
    "batch_size",
    "evaluations_per_iteration",
    "evaluations_per_optimization_iteration",
)
"""Names of the batch size in HyperMapper 3, the first version of BaCO, and HyperMapper 2."""

_OUTPUT = "output_samples.csv"


@dataclass(frozen=True)
class Scenario:
    """A checked scenario.

    Attributes:
        space: The space to tune.
        layout: The columns of requests, replies and files.
        strategy: Name of the corresponding strategy.
        settings: Settings of this strategy.
        design: Evaluations of the first request.
        sampling: Name of the initial design.
        batch: Evaluations of each later request.
        evaluations: Total number of evaluations.
        seconds: Limit of wall time in seconds, or None.
        output: The file of samples.
        resume: The file whose rows are observed first, or None.
        notes: One line for each setting that is ignored or unknown.
    """

    space: Space
    layout: Layout
    strategy: str
    settings: Mapping[str, Any]
    design: int
    sampling: str
    batch: int
    evaluations: int
    seconds: float | None
    output: Path
    resume: Path | None
    notes: tuple[str, ...]


def read_scenario(
    source: str | Path | Mapping[str, Any], allow_dirs: Sequence[Path] = ()
) -> Scenario:
    """Read a scenario. Nothing is written or run; files that it names are not read.

    Args:
        source: The path of a file, or its parsed contents.
        allow_dirs: Folders besides ``run_directory`` in which the scenario's files may be.

    Raises:
        SpaceError: The space is invalid.
        RunFileError: The file cannot be read, a field has a wrong value, a file to be written is outside
            ``run_directory``, or there is no objective.
    """
    try:
        description = read_baco(source)
    except OSError as error:
        raise RunFileError(f"{source}: {error.strerror}") from None
    fields = _Fields(description.settings)
    expected = "a list of the names of one or several objectives"
    first, *further = fields.take("optimization_objectives", None, list, expected) or [None]
    if not all(isinstance(name, str) for name in (first, *further)):
        raise fields.error("optimization_objectives", expected)
    timestamp = fields.text("timestamp", "Timestamp")
    feasibility = _read_feasibility(fields)
    layout = Layout(description.parameters, first, feasibility, timestamp, tuple(further))
    strategy, settings = _read_strategy(fields, bool(further))
    design, sampling = _read_design(fields)
    iterations = fields.whole("optimization_iterations", 50, 0)
    batch = max(fields.whole(name, 1, 1) for name in _BATCH_FIELDS)
    if design + iterations < 1:
        raise fields.error("optimization_iterations", "a number above 0 if there is no design")
    minutes = finite_number(fields.take("time_budget", -1))
    if minutes is None or (minutes <= 0 and minutes != -1):
        raise fields.error("time_budget", "a number of minutes above 0, or -1 for no limit")
    files = _read_files(fields, allow_dirs)
    for name in ("baco_mode", "hypermapper_mode"):
        _note_mode(fields.inner(name))
    space = Space(description.parameters, description.constraints)
    default = space.default_config
    if default is not None and not space.contains(default):
        fields.notes.append("the default configuration violates a constraint and is left out")
    fields.note_unused()
    return Scenario(
        space=space,
        layout=layout,
        strategy=strategy,
        settings=settings,
        design=design,
        sampling=sampling,
        batch=batch,
        evaluations=design + iterations * batch,
        seconds=None if minutes == -1 else 60 * minutes,
        notes=(*description.notes, *fields.notes),
        **files,
    )


def _note_mode(inner: _Fields) -> None:
    """Note each mode except client-server: the client is always asked over standard input and output."""
    mode = inner.take("mode", "client-server")
    if mode != "client-server":
        inner.notes.append(
            f"{inner.prefix}mode {mode!r:.40}: the client is asked over stdin and stdout all the same"
        )
    inner.note_unused()


@dataclass
class _Fields:
    """The fields of one JSON object; fields that are never read are noted as ignored.

    Attributes:
        values: The fields as in the file.
        prefix: The object's name and a dot, or an empty text for the whole file.
        notes: Settings that are ignored or unknown.
        used: Names of the fields that were read.
    """

    values: Mapping[str, Any]
    prefix: str = ""
    notes: list[str] = field(default_factory=list)
    used: set[str] = field(default_factory=set)

    def take(self, name: str, default: Any, kind: Any = object, expected: str = "") -> Any:
        """Return a field of a type, or the default for null; a blank text is an error.

        Raises:
            RunFileError: The field has another type.
        """
        self.used.add(name)
        value = self.values.get(name)
        value = default if value is None else value
        if not isinstance(value, kind) or (expected and not str(value).strip()):
            raise self.error(name, expected)
        return value

    def error(self, name: str, expected: str) -> RunFileError:
        return RunFileError(
            f"scenario: {self.prefix}{name} must be {expected}, not {self.values.get(name)!r:.60}"
        )

    def text(self, name: str, default: str) -> str:
        return str(self.take(name, default, str, "a text"))

    def word(self, name: str, default: str) -> str:
        """Return a word that may also be written as a number or as true and false."""
        return str(self.take(name, default, (str, int), "a word")).strip()

    def flag(self, name: str) -> bool:
        return bool(self.take(name, False, bool, "true or false"))

    def whole(self, name: str, default: int, least: int) -> int:
        value = finite_number(self.take(name, default))
        if value is None or value < least or not value.is_integer():
            raise self.error(name, f"a whole number from {least}")
        return int(value)

    def choice(self, name: str, options: Mapping[str, str], default: str) -> str:
        """Return our name for an option; an unknown option is noted and replaced by the default."""
        option = self.text(name, default)
        if option not in options:
            self.notes.append(f"{self.prefix}{name} {option!r:.60} is unknown; {default} is used")
        return options.get(option, options[default])

    def inner(self, name: str) -> _Fields:
        fields = self.take(name, {}, Mapping, "an object")
        return _Fields(fields, f"{self.prefix}{name}.", self.notes)

    def note_unused(self) -> None:
        ignored = set(self.used)
        if not self.prefix:
            ignored |= {k for k, v in _DEFAULT_BEHAVIOUR.items() if self.values.get(k) == v}
        unused = [self.prefix + name for name in self.values if name not in ignored]
        if unused:
            self.notes.append(f"without effect here: {', '.join(unused)}")


def _read_feasibility(fields: _Fields) -> Feasibility:
    inner = fields.inner("feasible_output")
    required = inner.flag("enable_feasible_predictor")
    yes, no = inner.word("true_value", "True"), inner.word("false_value", "False")
    if yes == no:
        raise inner.error("false_value", "another word than true_value")
    feasibility = Feasibility(inner.text("name", "Valid"), yes, no, required)
    inner.note_unused()
    return feasibility


def _read_strategy(fields: _Fields, several: bool) -> tuple[str, dict[str, Any]]:
    """Return the name of the strategy and its settings; for several objectives `auto` with the scenario's model."""
    models = fields.inner("models")
    strategy = models.choice("model", _STRATEGIES_BY_MODEL, "default")
    models.note_unused()
    settings = {"surrogate": "forest"} if several and strategy == "random_forest" else {}
    by_model = "auto" if several else strategy
    methods = {"bayesian_optimization": by_model, "exhaustive": "exhaustive"}
    method = fields.choice("optimization_method", methods, "bayesian_optimization")
    return method, {} if method == "exhaustive" else settings


def _read_design(fields: _Fields) -> tuple[int, str]:
    """Return the size and the name of the initial design."""
    inner = fields.inner("design_of_experiment")
    sampling = inner.choice("doe_type", _DESIGNS, "random sampling")
    if inner.flag("allow_repetitions"):
        inner.notes.append(
            f"{inner.prefix}allow_repetitions: no configuration is evaluated twice here"
        )
    size = inner.whole("number_of_samples", 10, 0)
    inner.note_unused()
    return size, sampling


def _read_files(fields: _Fields, allow_dirs: Sequence[Path]) -> dict[str, Any]:
    """Return the file of samples and the file to resume from.

    The file of samples must be inside ``run_directory`` or a permitted folder, also after links are followed.
    """
    folder = Path(fields.text("run_directory", "."))
    if not is_valid(folder):
        raise fields.error("run_directory", "a path")
    application = fields.text("application_name", "application")
    key, name = "output_data_file", fields.text("output_data_file", _OUTPUT)
    if name == _OUTPUT:
        key, name = "application_name", f"{application}_{_OUTPUT}"
    output = folder / name
    if not is_inside(output, (folder, *allow_dirs)):
        raise fields.error(key, "a path within run_directory or --allow-dir")
    keys = ("resume_optimization_file", "resume_optimization_data")
    sources = [fields.text(key, _OUTPUT) for key in keys]
    source = next((folder / name for name in sources if name != _OUTPUT), output)
    return {"output": output, "resume": source if fields.flag("resume_optimization") else None}
