"""How a scenario of BaCO or HyperMapper (2 or 3) wants to be run; `spaces.formats.baco` reads its space."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from baco_like.exceptions import RunFileError
from baco_like.records.reading import finite_number
from baco_like.results.hypermapper_columns import Feasibility, Layout
from baco_like.spaces.formats.baco import read_baco
from baco_like.spaces.space import Space

_DESIGNS: Mapping[str, str] = {
    "random sampling": "uniform",
    "embedding random sampling": "biased_walk",
    "standard latin hypercube": "latin_hypercube",
    "k latin hypercube": "latin_hypercube",
}

_MODELS: Mapping[str, str] = {
    "gaussian_process": "bayesian",
    "random_forest": "random_forest",
}

_AS_HERE: Mapping[str, Any] = {
    "acquisition_function": "EI",
    "acquisition_function_optimizer": "local_search",
    "allow_duplicate_samples": False,
    "epsilon_greedy_threshold": 0,
    "number_of_repetitions": 1,
    "print_posterior_best": False,
    "standardize_objectives": True,
}
"""Fields that need no note where they ask for what is done anyway."""

_BATCHES = (
    "batch_size",
    "evaluations_per_iteration",
    "evaluations_per_optimization_iteration",
)
"""What HyperMapper 3, BaCO's first version and HyperMapper 2 call the size of a batch."""

_OUTPUT = "output_samples.csv"


@dataclass(frozen=True)
class Scenario:
    """A scenario, checked.

    Attributes:
        space: What is tuned.
        layout: The columns of requests, replies and files.
        strategy: Name of the strategy that it means.
        design: Evaluations of the first request.
        sampling: Name of the design.
        batch: Evaluations of each later request.
        evaluations: In all.
        seconds: Wall time, or None for no limit.
        output: The file of samples.
        log: The file of notes, or None.
        resume: The file whose rows count as observed, or None.
        print_best: Whether the best point is written before the last line.
        notes: One line for everything that was left out or not understood.
    """

    space: Space
    layout: Layout
    strategy: str
    design: int
    sampling: str
    batch: int
    evaluations: int
    seconds: float | None
    output: Path
    log: Path | None
    resume: Path | None
    print_best: bool
    notes: tuple[str, ...]


def read_scenario(source: str | Path | Mapping[str, Any]) -> Scenario:
    """Return a scenario. Nothing is written or run; files beside it are not read either.

    Args:
        source: The path of a file, or its parsed contents.

    Raises:
        SpaceError: It describes no space.
        RunFileError: It cannot be read, a field has a wrong value, or it has not exactly one objective.
    """
    try:
        description = read_baco(source)
    except OSError as error:
        raise RunFileError(f"{source}: {error.strerror}") from None
    fields = _Fields(description.settings)
    layout = Layout(
        description.parameters,
        _objective(fields),
        _feasibility(fields),
        fields.text("timestamp", "Timestamp"),
    )
    strategy = _strategy(fields)
    design, sampling = _design(fields)
    batch, evaluations = _budget(fields, design)
    seconds = _seconds(fields)
    output, log, resume = _files(fields)
    print_best = fields.take("print_best", "auto") is True
    _modes(fields)
    space = Space(description.parameters, description.constraints)
    _default(fields, space)
    return Scenario(
        space=space,
        layout=layout,
        strategy=strategy,
        design=design,
        sampling=sampling,
        batch=batch,
        evaluations=evaluations,
        seconds=seconds,
        output=output,
        log=log,
        resume=resume,
        print_best=print_best,
        notes=(*description.notes, *fields.notes, *fields.unused()),
    )


@dataclass
class _Fields:
    """The fields of an object of the file; those that nobody takes have no effect.

    Attributes:
        given: As they stand there.
        prefix: The name of the object and a full stop, or nothing.
        notes: What was not understood.
    """

    given: Mapping[str, Any]
    prefix: str = ""
    notes: list[str] = field(default_factory=list)
    taken: set[str] = field(default_factory=set)

    def take(self, name: str, default: Any) -> Any:
        self.taken.add(name)
        value = self.given.get(name)
        return default if value is None else value

    def wrong(self, name: str, wanted: str) -> RunFileError:
        return RunFileError(
            f"scenario: {self.prefix}{name} must be {wanted}, not {self.given.get(name)!r:.60}"
        )

    def text(self, name: str, default: str) -> str:
        value = self.take(name, default)
        if not isinstance(value, str) or not value:
            raise self.wrong(name, "a text")
        return value

    def flag(self, name: str) -> bool:
        value = self.take(name, False)
        if not isinstance(value, bool):
            raise self.wrong(name, "true or false")
        return value

    def whole(self, name: str, default: int, least: int) -> int:
        value = finite_number(self.take(name, default))
        if value is None or value < least or not value.is_integer():
            raise self.wrong(name, f"a whole number from {least}")
        return int(value)

    def inner(self, name: str) -> _Fields:
        value = self.take(name, {})
        if not isinstance(value, Mapping):
            raise self.wrong(name, "an object")
        return _Fields(value, f"{self.prefix}{name}.", self.notes)

    def unused(self) -> list[str]:
        names = [
            self.prefix + name
            for name, value in self.given.items()
            if name not in self.taken
            and not (not self.prefix and name in _AS_HERE and value == _AS_HERE[name])
        ]
        return [f"without effect here: {', '.join(names)}"] if names else []


def _objective(fields: _Fields) -> str:
    names = fields.take("optimization_objectives", None)
    if not isinstance(names, list) or len(names) != 1 or not isinstance(names[0], str):
        raise fields.wrong("optimization_objectives", "a list with the name of one objective")
    return names[0]


def _feasibility(fields: _Fields) -> Feasibility:
    inner = fields.inner("feasible_output")
    required = inner.flag("enable_feasible_predictor")
    yes, no = (
        _word(inner, name, default)
        for name, default in (("true_value", "True"), ("false_value", "False"))
    )
    if yes == no:
        raise inner.wrong("false_value", "another word than true_value")
    found = Feasibility(inner.text("name", "Valid"), yes, no, required)
    fields.notes += inner.unused()
    return found


def _word(fields: _Fields, name: str, default: str) -> str:
    """Return a word that may be written as a number or as true and false too."""
    value = fields.take(name, default)
    if not isinstance(value, (str, int)) or not str(value).strip():
        raise fields.wrong(name, "a word")
    return str(value).strip()


def _strategy(fields: _Fields) -> str:
    method = fields.text("optimization_method", "bayesian_optimization")
    models = fields.inner("models")
    model = models.take("model", None)
    fields.notes += models.unused()
    if method == "exhaustive":
        return "exhaustive"
    if method != "bayesian_optimization":
        fields.notes.append(
            f"optimization_method {method!r} is not available; this is bayesian_optimization"
        )
    if model is not None and model not in _MODELS:
        fields.notes.append(f"models.model {model!r:.60} is unknown; the default is used")
    return _MODELS.get(str(model), "auto")


def _design(fields: _Fields) -> tuple[int, str]:
    inner = fields.inner("design_of_experiment")
    kind = inner.text("doe_type", "random sampling")
    if inner.flag("allow_repetitions"):
        fields.notes.append(
            "design_of_experiment.allow_repetitions: nothing is evaluated twice here"
        )
    if kind not in _DESIGNS:
        fields.notes.append(
            f"design_of_experiment.doe_type {kind!r} is unknown; it is random sampling"
        )
    size = inner.whole("number_of_samples", 10, 0)
    fields.notes += inner.unused()
    return size, _DESIGNS.get(kind, "uniform")


def _budget(fields: _Fields, design: int) -> tuple[int, int]:
    """Return the rows of a request after the design, and those of all requests."""
    iterations = fields.whole("optimization_iterations", 50, 0)
    batch = max(fields.whole(name, 1, 1) for name in _BATCHES)
    if design + iterations < 1:
        raise fields.wrong("optimization_iterations", "a number above 0 where there is no design")
    return batch, design + iterations * batch


def _default(fields: _Fields, space: Space) -> None:
    default = space.default_config
    if default is not None and not space.contains(default):
        fields.notes.append("the default configuration violates a constraint and is left out")


def _seconds(fields: _Fields) -> float | None:
    minutes = finite_number(fields.take("time_budget", -1))
    if minutes is None or (minutes <= 0 and minutes != -1):
        raise fields.wrong("time_budget", "a number of minutes above 0, or -1 for no limit")
    return None if minutes == -1 else 60 * minutes


def _files(fields: _Fields) -> tuple[Path, Path | None, Path | None]:
    """Return the files of samples, of notes and of the run to go on with.

    Those that are written lie in ``run_directory``; a path that leads out of it is refused.
    """
    folder = Path(fields.text("run_directory", "."))
    application = fields.text("application_name", "application")
    named = fields.text("output_data_file", _OUTPUT)
    own = named != _OUTPUT
    samples = named if own else f"{application}_{_OUTPUT}"
    output = _within(fields, "output_data_file" if own else "application_name", folder, samples)
    log = fields.take("log_file", "")
    earlier = [
        fields.text(name, _OUTPUT)
        for name in ("resume_optimization_file", "resume_optimization_data")
    ]
    chosen = next((name for name in earlier if name != _OUTPUT), None)
    resume = output if chosen is None else folder / chosen
    return (
        output,
        _within(fields, "log_file", folder, str(log)) if log else None,
        resume if fields.flag("resume_optimization") else None,
    )


def _within(fields: _Fields, name: str, folder: Path, text: str) -> Path:
    if Path(text).is_absolute() or ".." in Path(text).parts:
        raise fields.wrong(name, "a path within run_directory")
    return folder / text


def _modes(fields: _Fields) -> None:
    for name in ("baco_mode", "hypermapper_mode"):
        inner = fields.inner(name)
        mode = inner.take("mode", "client-server")
        if mode != "client-server":
            fields.notes.append(
                f"{name}.mode {mode!r:.40}: the client is asked over stdin and stdout all the same"
            )
        fields.notes += inner.unused()
