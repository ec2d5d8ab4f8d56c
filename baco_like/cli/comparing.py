"""The commands about strategies: ``strategies`` lists them, ``compare`` runs them on recorded spaces and functions."""

from __future__ import annotations

from pathlib import Path

from baco_like._output import check_output, explain_os_error, print_line
from baco_like.acquisitions import registry as acquisitions
from baco_like.benchmarking import studies
from baco_like.benchmarking.studies.contenders import read_contender
from baco_like.cli import arguments
from baco_like.evaluators import registry as evaluators
from baco_like.exceptions import JournalError, MissingExtra, PluginError
from baco_like.strategies import default_settings
from baco_like.strategies.registry import REGISTRY, describe_strategy
from baco_like.surrogates import registry as surrogates

_RESULTS = (
    *("table.md", "table.tex", "figures.csv", "evaluations.csv"),
    *(f"{name}.png" for name in studies.FIGURES),
)
"""The files in the folder of the results."""

_OTHER_FOLDER = "choose another folder by --out"


def strategies(args: arguments.Strategies) -> None:
    """List the strategies, one in each line, and the names that some of their settings can have."""
    width = max(map(len, REGISTRY.names))
    for name in REGISTRY.names:
        print_line(f"{name:<{width}}  {_describe(name)}")
    print_line("")
    for title, registry in (
        ("surrogate", surrogates.REGISTRY),
        ("acquisition", acquisitions.REGISTRY),
        ("[evaluator] kind", evaluators.REGISTRY),
    ):
        origins = {
            name: f" (plug-in of {plugin.origin})" for name, plugin in registry.plugins.items()
        }
        names = ", ".join(name + origins.get(name, "") for name in registry.names)
        print_line(f"{title}: {names}")


def _describe(name: str) -> str:
    """Return a strategy's description with its settings, or why the plug-in cannot be used."""
    try:
        settings = ", ".join(f"{k}={v!r}" for k, v in default_settings(name).items())
        return describe_strategy(name) + (f"  [{settings}]" if settings else "")
    except PluginError as error:
        return str(error)


def compare(args: arguments.Compare) -> None:
    """Run the study, or read the one of an archive, and write its tables and plots.

    Raises:
        StrategyError: A problem does not exist, an option does not fit it, or the archive cannot be read.
        JournalError: A file cannot be written, or one of the results would replace an input.
    """
    is_archive = [Path(name).suffix for name in args.problems] == [".zip"]
    stem = Path(args.problems[0]).stem if is_archive else "compare"
    folder = args.out or Path("runs", stem)
    with explain_os_error(JournalError, "write", folder, _OTHER_FOLDER):
        for path in filter(None, (*(folder / name for name in _RESULTS), args.archive)):
            check_output(path, args.problems)
    if is_archive:
        result = studies.read_archive(args.problems[0])
        _write(result, folder)
        if args.again:
            with explain_os_error(JournalError, "write", folder, _OTHER_FOLDER):
                again = studies.repeat_study(args.problems[0], folder / "again", args.jobs)
            print_line(f"\nAgain:\n\n{studies.describe_differences(result, again)}")
        return
    contenders = [read_contender(name) for name in args.strategies if name]
    problems, notes = studies.find_problems(args.problems, args.direction, large=args.large)
    for note in notes:
        print_line(note)
    seeds = range(args.seed, args.seed + args.repeats)
    path = folder / "runs.jsonl"
    try:
        result = studies.study(
            *(contenders, problems, seeds, args.budget),
            draw=args.draw,
            path=path,
            processes=args.jobs,
        )
    except KeyboardInterrupt:
        print_line(f"interrupted; the same command continues, its evaluations are in {path}")
        raise
    _write(result, folder)
    if args.archive:
        with explain_os_error(JournalError, "write", args.archive, f"the runs are in {path}"):
            studies.write_archive(result, args.archive)
        print_line(f"the archive is {args.archive}; open it by: baco-like compare {args.archive}")


def _write(result: studies.StudyResult, folder: Path) -> None:
    with explain_os_error(JournalError, "write", folder, _OTHER_FOLDER):
        folder.mkdir(parents=True, exist_ok=True)
        try:
            studies.write_results(result, folder)
        except MissingExtra as error:
            print_line(f"some results are not written: {error}")
    print_line(f"{studies.to_markdown(result.figures)}\nresults are in {folder}")
