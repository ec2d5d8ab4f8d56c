"""``baco-like serve``: a compiler written for HyperMapper or BaCO requests suggestions over stdin and stdout."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO

from baco_like._output import explain_os_error
from baco_like.exceptions import RunFileError, StrategyError
from baco_like.integrations.hypermapper import files, messages
from baco_like.integrations.hypermapper.messages import Report
from baco_like.integrations.hypermapper.scenario import Scenario, read_scenario
from baco_like.integrations.hypermapper.sessions import FunctionSession, PipeSession, Session
from baco_like.journal.lock import sole_runner
from baco_like.optimizer import Optimizer, Search, Sharing, WarmStart
from baco_like.optimizer.arguments import default_points
from baco_like.records import Outcome
from baco_like.results.hypermapper import read_csv
from baco_like.running.telling import describe_front, describe_values
from baco_like.strategies import default_settings


def serve_stdio(
    source: Path,
    *,
    strategy: str | None,
    allow_dirs: Sequence[Path] = (),
    **options: Any,
) -> None:
    """Serve a scenario over standard input and output.

    Args:
        source: The scenario.
        strategy: As for `serve`.
        allow_dirs: As for `serve`.
        options: Further arguments of `serve`.

    Raises:
        BacoError: As for `serve` and `read_scenario`; also if ``strategy`` is unknown.
    """
    with messages.open_protocol_streams() as (incoming, outgoing):
        scenario = read_scenario(source, allow_dirs)
        try:
            default_settings(strategy or scenario.strategy)
        except ValueError as error:
            raise RunFileError(f"--strategy: {error}") from None
        options |= {"strategy": strategy, "allow_dirs": allow_dirs}
        serve(scenario, incoming, outgoing, messages.report_to_stderr, **options)


def serve(
    scenario: Scenario,
    incoming: TextIO,
    outgoing: TextIO,
    report: Report,
    *,
    seed: int = 0,
    strategy: str | None = None,
    journal: Path | None = None,
    allow_dirs: Sequence[Path] = (),
    large: bool = False,
    ahead: int = 0,
    priors: Sequence[Path] = (),
) -> str:
    """Request evaluations from the client until the budget is spent; return the reason of the end.

    Args:
        scenario: The space, the budget and the files of the run.
        incoming: The client's replies.
        outgoing: Receives the lines of the protocol and no others.
        report: Called with a line for each ignored setting, and for the result of the run.
        seed: The run's only seed.
        strategy: A strategy's name, in place of the scenario's.
        journal: Also keep the run in this journal; an existing one is resumed, its pending trials first.
        allow_dirs: Folders besides the current one in which the scenario's files may be.
        large: Whether the file to resume from may have more than 64 MiB, unpacked, or 150,000 lines.
        ahead: Number of proposals that are computed while the client measures; see `Optimizer`.
        priors: Files of results of related tasks, such as the same program on another device; see `WarmStart`.

    Raises:
        ConfigError: No result of a prior belongs to the space.
        StrategyError: The strategy has no model that a prior could inform.
        EvaluatorError: The client has ended, or its reply is invalid.
        RunFileError: A file of the scenario cannot be read or written, or is outside the permitted folders.
        JournalError: The journal belongs to another run, or is in use.
        ValueError: The strategy does not exist.
    """

    def start(optimizer: Optimizer, samples: TextIO, report: Report) -> Session:
        return PipeSession(scenario, optimizer, samples, report, incoming, outgoing)

    scenario = replace(scenario, strategy=strategy or scenario.strategy)
    _, reason = _run(
        scenario,
        start,
        report,
        seed=seed,
        journal=journal,
        allow_dirs=allow_dirs,
        large=large,
        ahead=ahead,
        priors=priors,
    )
    return reason


def optimize(
    settings_file: str | os.PathLike[str] | Mapping[str, Any],
    black_box_function: Callable[[dict[str, Any]], Any] | None = None,
    *,
    seed: int = 0,
    strategy: str | None = None,
    journal: str | os.PathLike[str] | None = None,
) -> Optimizer | None:
    """Tune a Python function as ``optimizer.optimize`` of HyperMapper and BaCO does, and return the optimizer.

    Args:
        settings_file: The scenario: the path of a JSON file, or its content.
        black_box_function: Gets a configuration as a dictionary. It returns a mapping of the objectives and of the
            feasibility column, or their values in the order of the file of samples. None: `serve_stdio`.
        seed: The run's only seed.
        strategy: A strategy's name, in place of the scenario's.
        journal: Also keep the run in this journal; an existing one is resumed.

    Returns:
        The optimizer with all trials; None without a function.

    Raises:
        EvaluatorError: The function's result lacks an objective, or has another number of values.
        RunFileError: The scenario cannot be read, or one of its files cannot be read or written.
        JournalError: The journal belongs to another run, or is in use.
        ValueError: The strategy does not exist.
    """
    path = None if journal is None else Path(journal)
    if black_box_function is None:
        if isinstance(settings_file, Mapping):
            raise RunFileError("a scenario without a function to tune must be a file")
        serve_stdio(Path(settings_file), strategy=strategy, seed=seed, journal=path)
        return None
    function = black_box_function
    given = settings_file if isinstance(settings_file, Mapping) else Path(settings_file)
    scenario = read_scenario(given)
    scenario = replace(scenario, strategy=strategy or scenario.strategy)

    def start(optimizer: Optimizer, samples: TextIO, report: Report) -> Session:
        return FunctionSession(scenario, optimizer, samples, report, function)

    return _run(scenario, start, messages.report_to_stderr, seed=seed, journal=path)[0]


def _run(
    scenario: Scenario,
    start: Callable[[Optimizer, TextIO, Report], Session],
    report: Report,
    *,
    seed: int,
    journal: Path | None,
    allow_dirs: Sequence[Path] = (),
    large: bool = False,
    ahead: int = 0,
    priors: Sequence[Path] = (),
) -> tuple[Optimizer, str]:
    """Run a session of a scenario; return the optimizer and the reason of the end. See `serve` for the arguments."""
    log = [] if scenario.log is None else [scenario.log]
    files.check_permitted([scenario.output, *log], allow_dirs)
    earlier: tuple[list[dict[str, Any]], list[Outcome]] = ([], [])
    if scenario.resume is not None:
        if os.path.exists(scenario.resume) and not os.path.isfile(scenario.resume):  # a pipe
            raise RunFileError(f"{scenario.resume} is not a file to resume from")
        earlier = read_csv(scenario.resume, scenario.layout, large=large)
    files.check_samples(scenario.output, scenario.layout)
    warm = [WarmStart(file, mode="prior", large=large) for file in priors] or None
    try:
        _create_optimizer(scenario, seed, None, 0, warm)  # its checks, before anything is written
    except StrategyError as error:
        raise _explain_prior(error, scenario) if warm else error from None
    with contextlib.ExitStack() as stack:
        with explain_os_error(RunFileError, "write", scenario.output):
            scenario.output.parent.mkdir(parents=True, exist_ok=True)
        stack.enter_context(sole_runner(scenario.output))
        stack.enter_context(sole_runner(journal))
        report = stack.enter_context(files.report_to_log(scenario.log, report))
        for note in scenario.notes:
            report(note)
        optimizer = _create_optimizer(scenario, seed, journal, ahead, warm)
        if not optimizer.trials:
            outside = observe_samples(optimizer, *earlier)
            if outside:
                report(
                    f"{outside} of {len(earlier[0])} rows of {scenario.resume} are outside the space"
                )
        samples = stack.enter_context(
            files.open_samples(scenario.output, scenario.layout, optimizer.trials, report)
        )
        reason = start(optimizer, samples, report).run()
        report(f"ended: {reason}; {_describe_best(optimizer)}, all rows are in {scenario.output}")
    return optimizer, reason


def _describe_best(optimizer: Optimizer) -> str:
    """Return the best value with its configuration; with several objectives the range of the front and its knee."""
    best = optimizer.best
    if best is None:
        return "no evaluation succeeded"
    config = ", ".join(f"{name}={value}" for name, value in best.config.items())
    objectives = optimizer.options.aim.several
    if not objectives:
        return f"best {best.value!r} with {config}"
    knee = describe_values(best, objectives)
    return f"{describe_front(optimizer.front, objectives)}; knee {knee} with {config}"


def _explain_prior(error: StrategyError, scenario: Scenario) -> StrategyError:
    """Return the error of a strategy that cannot use a prior, in the words of a scenario."""
    remedies = []
    if scenario.strategy == "random_forest" or scenario.settings.get("surrogate") == "forest":
        remedies.append('write "models": {"model": "gaussian_process"} into the scenario')
    if scenario.strategy not in ("auto", "random_forest"):
        remedies.append("take the strategy auto")
    problem = str(error).partition(";")[0]
    return StrategyError(f"{problem}; {' and '.join(remedies)}, or leave the prior out")


def _create_optimizer(
    scenario: Scenario,
    seed: int,
    journal: Path | None,
    ahead: int,
    warm_start: Sequence[WarmStart] | None,
) -> Optimizer:
    settings = {"initial": max(1, scenario.design), "design": scenario.sampling}
    settings |= scenario.settings
    supported = default_settings(scenario.strategy)
    return Optimizer(
        scenario.space,
        dict.fromkeys(scenario.layout.objectives, "minimize"),
        seed,
        budget=scenario.evaluations,
        strategy=Search(
            scenario.strategy,
            {key: value for key, value in settings.items() if key in supported},
            default_points(scenario.space),  # the scenario's notes report an infeasible default
        ),
        storage=journal,
        sharing=Sharing(ahead=ahead),
        warm_start=warm_start,
    )


def observe_samples(
    optimizer: Optimizer, configs: Sequence[Mapping[str, Any]], outcomes: Sequence[Outcome]
) -> int:
    """Observe the contents of a file of samples; return the number of configurations outside the space.

    Those are recorded, but no model uses them.

    Raises:
        JournalError: An observation cannot be recorded.
    """
    for config, outcome in zip(configs, outcomes, strict=True):
        value = {optimizer.options.aim.first.name: outcome.value, **outcome.metrics}
        optimizer.observe(
            config,
            value if outcome.value is not None else None,
            failed=outcome.failed,
            message=outcome.message,
            extra=outcome.extra,
            imported=True,
        )
    return sum(not optimizer.space.contains(config) for config in configs)
