"""The commands about strategies: ``strategies`` lists them, ``compare`` runs them on recorded spaces and functions."""

from __future__ import annotations

import argparse

from baco_like._output import check_output, explain_os_error, print_line, replace_file
from baco_like.acquisitions import registry as acquisitions
from baco_like.benchmarking import studies
from baco_like.evaluators import registry as evaluators
from baco_like.exceptions import JournalError, MissingExtra, PluginError
from baco_like.strategies import default_settings
from baco_like.strategies.registry import REGISTRY, describe_strategy
from baco_like.surrogates import registry as surrogates

_RESULTS = (
    *("table.md", "table.tex", "figures.csv", "evaluations.csv"),
    *("curves.png", "ranks.png", "scores.png", "scores_over_time.png", "wins.png"),
)
"""The files in the folder of the results."""


def strategies(args: argparse.Namespace) -> None:
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


def compare(args: argparse.Namespace) -> None:
    """Run the study and write its tables and plots.

    Raises:
        StrategyError: A problem does not exist, or an option does not fit it.
        JournalError: A file cannot be written, or one of the results would replace an input.
    """
    folder, path = args.out, args.out / "runs.jsonl"
    with explain_os_error(JournalError, "write", folder, "choose another folder by --out"):
        for name in _RESULTS:
            check_output(folder / name, args.problems)
    problems, notes = studies.find_problems(args.problems, args.direction, large=args.large)
    for note in notes:
        print_line(note)
    with explain_os_error(JournalError, "make", folder, "choose another folder by --out"):
        folder.mkdir(parents=True, exist_ok=True)
    seeds = range(args.seed, args.seed + args.repeats)
    try:
        result = studies.study(
            *(args.strategies, problems, seeds, args.budget),
            draw=args.draw,
            path=path,
            processes=args.jobs,
        )
    except KeyboardInterrupt:
        print_line(f"interrupted; the same command continues, its finished runs are in {path}")
        raise
    figures = result.figures
    text = studies.to_markdown(figures)
    with explain_os_error(JournalError, "write", folder, f"the runs are in {path}"):
        replace_file(folder / "table.md", text.encode())
        replace_file(folder / "table.tex", studies.to_latex(figures).encode())
        replace_file(folder / "figures.csv", studies.to_csv(figures).encode())
        try:
            studies.plot_curves(result, folder / "curves.png")
            if figures.ranks is not None:
                studies.plot_critical_difference(figures.ranks, folder / "ranks.png")
                studies.plot_wins(figures, folder / "wins.png")
            for kind, name in (("evaluations", "scores"), ("time", "scores_over_time")):
                if standings := getattr(figures, kind):
                    studies.plot_scores(standings, kind, folder / f"{name}.png")
            evaluations = result.to_dataframe().to_csv(index=False)
            replace_file(folder / "evaluations.csv", evaluations.encode())
        except MissingExtra as error:
            print_line(f"some results are not written: {error}")
    print_line(f"{text}\nresults are in {folder}")
