"""The arguments of all commands."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from baco_like.exceptions import BacoError

if TYPE_CHECKING:
    from baco_like.benchmarking.studies.runs import Contender


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line; it stores the name of the command as ``command``."""
    parser = argparse.ArgumentParser(
        prog="baco-like",
        description="Tune compilers and kernels: suggest the next configuration to measure.",
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    _add_tune(commands)
    _add_flags(commands)
    _add_passes(commands)
    _add_show(commands)
    _add_watch(commands)
    _add_report(commands)
    _add_rebuild(commands)
    _add_simplify(commands)
    _add_ship(commands)
    _add_check(commands)
    _add_serve(commands)
    commands.add_parser("strategies", help="list the strategies and their settings")
    _add_schema(commands)
    _add_compare(commands)
    _add_repair(commands)
    _add_export(commands)
    return parser


def _add_tune(commands: Any) -> None:
    add = commands.add_parser("tune", help="tune what a run file describes").add_argument
    add(
        "file",
        type=_path,
        metavar="FILE.toml",
        help="run file: space, objective, evaluator, budget, ...",
    )
    add("--budget", type=_whole(1), metavar="N", help="evaluations (default: the file's)")
    add("--seed", type=_whole(0), metavar="S", help="seed of the run (default: the file's, else 0)")
    _add_out(add, "DIR", "folder of the results (default: a new one in runs/)")
    add("--resume", action="store_true", help="continue the run in --out (default: the newest)")
    add("--report", action="store_true", help="write report.html too, for a browser")
    slots = "device slots, such as cuda:0,cuda:1 (default: the file's)"
    add("--slots", type=_words, metavar="A,B", help=slots)
    task = "tune only this one of the file's [tasks], such as n=512 or A4000"
    add("--task", type=_task_or_name, metavar="TASK", help=task)
    worker = "share the run in --out with other processes, each with another name"
    add("--worker", type=_name, metavar="NAME", help=worker)
    lease = (
        "a trial without a result is suggested again after S seconds without a sign of its process"
    )
    add("--lease", type=_positive, metavar="S", help=lease)
    _add_large(add)


def _add_flags(commands: Any) -> None:
    add = commands.add_parser(
        "flags",
        help="tune the flags of a build command: write a run file and start it",
        description="Write a run file that tunes all flags of a build command, print its path, and start it.",
    ).add_argument
    build = "build command with {flags}, such as 'gcc -O2 {flags} app.c -o {workdir}/app'"
    add("build", metavar="COMMAND", help=build)
    add("--run", metavar="COMMAND", help="command to measure, such as '{workdir}/app'")
    size = "minimise the bytes of code and constants of the built program, not the time"
    add("--size", action="store_true", help=size)
    pattern = "regular expression of the measured time in the output (default: the wall time)"
    add("--pattern", metavar="REGEX", help=pattern)
    add("--check", metavar="COMMAND", help="its exit code 0 means that the result is correct")
    compiler = "compiler that is asked for its flags (default: first word of the build command)"
    add("--compiler", metavar="NAME", help=compiler)
    _add_start(add, 60)


def _add_passes(commands: Any) -> None:
    add = commands.add_parser(
        "passes",
        help="find LLVM's best passes for a C program: write a run file and start it",
        description="Write a run file that searches a pipeline of LLVM's passes for a program, print its path, and "
        "start it.",
    ).add_argument
    sources = "sources in C, or bitcode, of one program"
    add("sources", nargs="+", type=_path, metavar="SOURCE", help=sources)
    measures = ("instructions", "size", "cycles", "time")
    measure = "what is minimised: %(choices)s (default: instructions)"
    add("--measure", choices=measures, default=measures[0], metavar="M", help=measure)
    passes = "all (default), O0 to O3, Os, Oz: the passes to choose from"
    add("--passes", default="all", metavar="SET", help=passes)
    add("--arguments", metavar="TEXT", help="arguments of the program")
    add("--cflags", metavar="TEXT", help="flags of the sources, such as -DN=100")
    add("--opt", metavar="NAME", help="opt of LLVM (default: the newest)")
    add("--no-check", action="store_true", help="do not run the program to compare its output")
    _add_start(add, 200)


def _add_start(add: Callable[..., Any], budget: int) -> None:
    """Add the arguments of a command that writes a run file and starts it."""
    file = "run file to write; commands run in its folder (default: a name after the program)"
    add("--file", type=_path, metavar="FILE.toml", help=file)
    add("--write-only", action="store_true", help="only write the run file")
    evaluations = f"evaluations (default: {budget})"
    add("--budget", type=_whole(1), default=budget, metavar="N", help=evaluations)
    add("--seed", type=_whole(0), default=0, metavar="S", help="seed of the run (default: 0)")
    _add_out(add, "DIR", "folder of the results (default: a new one in runs/)")


def _add_show(commands: Any) -> None:
    summary = "show the status, the best trials and the failures of a run"
    add = _add_reader(commands, "show", summary)
    _add_top(add)
    add("--trial", type=_whole(0), metavar="N", help="everything about this trial, with its log")
    _add_task_choice(add)


def _add_watch(commands: Any) -> None:
    add = _add_reader(commands, "watch", "follow a run that another process tunes")
    _add_top(add)
    seconds = "seconds between two updates (default: 2)"
    add("--interval", type=_whole(1), default=2, metavar="S", help=seconds)


def _add_report(commands: Any) -> None:
    summary = "write the report of a run: one HTML file that answers ten questions"
    add = _add_reader(commands, "report", summary)
    output = "the file to write (default: as the journal, with .html)"
    _add_out(add, "FILE", output)
    peak = "best value that the machine allows (default: the run file's)"
    add("--peak", type=_positive, metavar="VALUE", help=peak)


def _add_reader(commands: Any, name: str, summary: str) -> Callable[..., Any]:
    """Add a command that reads a journal; return the function that adds its other arguments."""
    add: Callable[..., Any] = commands.add_parser(name, help=summary).add_argument
    add("journal", type=_path, metavar="RUN", help="journal or folder of a run; it is only read")
    return add


def _add_top(add: Callable[..., Any]) -> None:
    add("--top", type=_whole(1), default=5, metavar="N", help="number of best trials (default: 5)")


def _add_rebuild(commands: Any) -> None:
    add = _add_reader(commands, "rebuild", "print or run the exact commands of a trial")
    add("--trial", type=_whole(0), metavar="N", help="the trial (default: the winner)")
    _add_task_choice(add)
    add("--run", action="store_true", dest="execute", help="run the commands too")
    add("--workdir", type=_path, metavar="DIR", help="folder for {workdir} (default: trial-N)")
    trust = "start the compiler of [flags], whatever program it is"
    add("--trust", action="store_true", help=trust)
    folder = "folder of the run file (default: as in the journal)"
    add("--folder", type=_path, metavar="DIR", help=folder)


def _add_task_choice(add: Any) -> None:
    task = "the configuration that is recommended for this task, such as n=512"
    add("--task", type=_task_or_name, metavar="TASK", help=task)


def _add_simplify(commands: Any) -> None:
    summary = "return parameters of the winner to their defaults where that changes nothing"
    add = commands.add_parser("simplify", help=summary).add_argument
    run = "folder or journal of a run, or its run file (then its newest run)"
    add("run", type=_path, metavar="RUN", help=run)
    run_file = "run file with the evaluator; trust it like a Makefile"
    add("--run-file", type=_path, metavar="FILE.toml", help=run_file)
    budget = "measurements of all tests so far (default: a quarter of the builds, at least 15)"
    add("--budget", type=_whole(1), metavar="N", help=budget)


def _add_ship(commands: Any) -> None:
    summary = "write the winners of runs as a file that another program loads"
    add = commands.add_parser("ship", help=summary).add_argument
    sources = "journals of runs, one for each task; or one table that --format json has written"
    add("sources", type=_path, nargs="+", metavar="RUN.jsonl", help=sources)
    add("--format", required=True, choices=_ShippedFormats(), metavar="FORMAT", help="%(choices)s")
    _add_out(add, "FILE", "the file; an old one is replaced", required=True)
    task = "descriptor of a journal's task, such as n=512,device=A4000; once for each journal"
    add("--task", type=_task, action="append", default=[], metavar="NAME=VALUE,...", help=task)
    constraint = "known constraint that reads descriptors, such as 'tile <= n'; may be repeated"
    add("--constraint", action="append", default=[], metavar="TEXT", help=constraint)
    add("--device", metavar="NAME", help="the device (default: the model of the CPU)")
    name = "beginning of the names in a C header, or tuning key of a wisdom file (default: FILE's)"
    add("--name", metavar="NAME", help=name)


def _add_check(commands: Any) -> None:
    add = commands.add_parser(
        "check",
        help="measure a shipped winner and the default again; exit 0, 1 (regressed) or 2 (cannot tell)",
        description="Measure the winner and the default configuration by turns, and compare their ratio with the one "
        "of the shipped table. Exit code: 0 fine, 1 regressed, 2 cannot tell.",
    ).add_argument
    file = (
        "table of 'ship --format json', journal, or run file (then the journal of its newest run)"
    )
    add("file", type=_path, metavar="FILE", help=file)
    run_file = "run file with the evaluator; trust it like a Makefile"
    add("--run-file", type=_path, metavar="FILE.toml", help=run_file)
    add(
        "--task",
        type=_task,
        default={},
        metavar="NAME=VALUE,...",
        help="entry to check, if FILE has several",
    )
    slowdown = "slow-down to find, in percent (default: 5)"
    add("--slowdown", type=_percent, default=5.0, metavar="P", help=slowdown)
    add(
        "--rounds",
        type=_whole(5),
        default=160,
        metavar="N",
        help="largest number of rounds (default: 160)",
    )
    add("--seed", type=_whole(0), default=0, metavar="S", help="for the order in the rounds")
    record = "keep these measurements in FILE, a table, for later checks"
    add("--record", action="store_true", help=record)
    stamp = "only compare the stamp of any shipped file with this machine; measure nothing"
    add("--stamp", action="store_true", help=stamp)
    add("--device", metavar="NAME", help="name of this device (default: the model of the CPU)")
    retune = "after a regression, spend N evaluations on a new run that starts with the old results"
    add("--retune", type=_whole(1), metavar="N", help=retune)
    _add_out(add, "DIR", "folder of the run of --retune (default: a new one in runs/)")
    add("--report", type=_path, metavar="FILE", help="write the result as JSON too")


def _add_serve(commands: Any) -> None:
    summary = "speak HyperMapper's and BaCO's client-server protocol over stdin and stdout"
    add = commands.add_parser("serve", help=summary).add_argument
    add("scenario", type=_path, metavar="SCENARIO.json", help="scenario of HyperMapper or BaCO")
    add("--seed", type=_whole(0), default=0, metavar="S", help="seed of the run (default: 0)")
    add("--strategy", metavar="NAME", help="use this instead of the scenario's")
    add("--journal", type=_path, metavar="FILE", help="keep the run in a journal, or resume it")
    ahead = "proposals to compute while the client measures (default: 0)"
    add("--ahead", type=_whole(0), default=0, metavar="N", help=ahead)
    related = "results of a related task, as of another device, to learn from; may be repeated"
    add("--prior", type=_path, action="append", default=[], metavar="FILE", help=related)
    folder = "another folder in which the scenario may write; may be repeated"
    add("--allow-dir", type=_path, action="append", default=[], metavar="DIR", help=folder)
    _add_large(add)


def _add_schema(commands: Any) -> None:
    summary = "print the JSON Schema of a run file, for editors"
    add = commands.add_parser("schema", help=summary).add_argument
    add("--reference", action="store_true", help="print the reference in Markdown instead")
    add("--table", action="store_true", help="print the schema of 'ship --format json' instead")


def _add_compare(commands: Any) -> None:
    add = commands.add_parser(
        "compare",
        help="compare strategies on recorded spaces and on functions",
        description="Run strategies on recorded spaces and on functions with a space, and score them. The same "
        "command continues an interrupted comparison; more repeats, strategies or problems extend a finished one.",
    ).add_argument
    names = (
        "names as in 'baco-like strategies'; settings follow, as in genetic_algorithm:population=20:mutation=0.1; "
        "also samplers of Optuna, as in optuna:TPESampler"
    )
    add("--strategies", type=parse_contenders, required=True, metavar="A,B,C", help=names)
    problems = (
        "files with T4 results or Kernel Tuner caches (.json, .json.gz), folders of them, module:function, or "
        "standard problems such as branin or tour_12"
    )
    add("--problems", type=_words, required=True, metavar="A,B", help=problems)
    repeats = _whole(2, " (for intervals)")
    add("--repeats", type=repeats, default=20, metavar="N", help="runs of each (default: 20)")
    budget = (
        "evaluations of a run (default: 60; on recorded spaces as many as random search needs for 95 %% of the way "
        "to the optimum)"
    )
    add("--budget", type=_whole(1), metavar="N", help=budget)
    add("--seed", type=_whole(0), default=0, metavar="S", help="the runs have seeds S, S + 1, ...")
    add("--jobs", type=_whole(1), default=2, metavar="N", help="processes (default: 2)")
    directions = ["minimize", "maximize"]
    add("--direction", choices=directions, default="minimize", help="of recorded values")
    draw = "draw each value from the recorded repeats; configurations may be evaluated again"
    add("--draw", action="store_true", help=draw)
    out = Path("runs/compare")
    _add_out(add, "DIR", f"folder of the results (default: {out})", default=out)
    _add_large(add)


def _add_repair(commands: Any) -> None:
    summary = "write the undamaged events of a journal into a new one"
    parser = commands.add_parser("repair", help=summary)
    add = parser.add_argument
    add("old", type=_path, metavar="OLD", help="damaged journal; it is not changed")
    _add_target(parser, "new", "new journal; must not exist")
    header = "another journal of the same run, if event 0 is damaged"
    add("--header", type=_path, metavar="FILE", help=header)


def _add_export(commands: Any) -> None:
    summary = "write a journal, or results of another tool, in a format of another tool"
    parser = commands.add_parser("export", help=summary)
    add = parser.add_argument
    add("source", type=_path, metavar="SOURCE", help="a journal, T4, Kernel Tuner, KTT, CSV")
    _add_target(parser, "target", "new file; must not exist")
    target = "of the target: %(choices)s; a name that ends in .gz is compressed"
    add("--format", required=True, choices=_ResultFormats(), metavar="FORMAT", help=target)
    add("--objective", metavar="NAME", help="the measurement to optimize (default: the file's)")
    task = "only the results of this task, such as n=512, without its descriptor"
    add("--task", type=_task, default={}, metavar="NAME=VALUE,...", help=task)
    _add_large(add)


def _add_out(add: Callable[..., Any], metavar: str, text: str, **settings: Any) -> None:
    add("-o", "--out", type=_path, metavar=metavar, help=text, **settings)


def _add_target(parser: argparse.ArgumentParser, name: str, text: str) -> None:
    """Add an output that is the last argument, or has the option that the other commands have."""
    add = parser.add_mutually_exclusive_group(required=True).add_argument
    absent = argparse.SUPPRESS  # keeps the value of the option

    def as_path(given: str) -> Any:
        return given if given is absent else _path(given)  # argparse converts defaults, too

    add(name, type=as_path, nargs="?", default=absent, metavar=name.upper(), help=text)
    _add_out(add, name.upper(), "the same as an option", dest=name)


def _add_large(add: Callable[..., Any]) -> None:
    add("--large", action="store_true", help="read files of results with more than 64 MiB unpacked")


class _ResultFormats:
    """The names of the formats of results, imported when they are needed: ``baco-like --help`` loads no NumPy."""

    def __iter__(self) -> Iterator[str]:
        from baco_like.results import FORMATS

        return iter(FORMATS)


class _ShippedFormats:
    """The names of the formats of shipped files, imported when they are needed."""

    def __iter__(self) -> Iterator[str]:
        from baco_like.shipping import FORMATS

        return iter(FORMATS)


def _task_or_name(text: str) -> dict[str, Any] | str:
    return _task(text) if "=" in text else text


def _task(text: str) -> dict[str, Any]:
    """Parse a descriptor: names and values, ``n=512,device=A4000``; a value is a number, true, false or a text."""
    task: dict[str, Any] = {}
    for part in _words(text):
        name, separator, value = part.partition("=")
        if not separator or not name or name in task:
            raise argparse.ArgumentTypeError(f"{part!r} needs the form NAME=VALUE, each name once")
        try:
            number = json.loads(value)
        except ValueError:
            number = value
        is_finite = not isinstance(number, float) or math.isfinite(number)
        task[name] = number if isinstance(number, int | float) and is_finite else value
    return task


def _percent(text: str) -> float:
    number = _positive(text)
    if number >= 100.0:
        raise argparse.ArgumentTypeError(f"needs a number between 0 and 100, not {text!r}")
    return number


def _whole(least: int, why: str = "") -> Callable[[str], int]:
    """Return an argument type for integers from ``least``; ``why`` is the reason, for the error message."""

    def parse(text: str) -> int:
        number = int(text) if text.isascii() and text.isdigit() else least - 1
        if number < least:
            raise argparse.ArgumentTypeError(
                f"needs a whole number from {least}{why}, not {text!r}"
            )
        return number

    return parse


def _path(text: str) -> Path:
    return Path(_name(text))


def _name(text: str) -> str:
    if not text:
        raise argparse.ArgumentTypeError("needs a name")
    return text


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",")]


def _positive(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0.0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"needs a number above 0, not {text!r}")
    return number


def parse_contenders(text: str) -> list[Contender]:
    """Parse ``--strategies``: names separated by commas, each with its settings after colons.

    Raises:
        argparse.ArgumentTypeError: A name or a setting is wrong.
    """
    contenders = [_parse_contender(part.strip()) for part in text.split(",") if part.strip()]
    labels = [contender.label for contender in contenders]
    for label in labels:
        if labels.count(label) > 1:
            raise argparse.ArgumentTypeError(f"{label!r} appears twice; name it once")
    if not contenders:
        raise argparse.ArgumentTypeError("needs at least one strategy")
    return contenders


def _parse_contender(text: str) -> Contender:
    from baco_like.benchmarking.studies.contenders import read_contender

    try:
        return read_contender(text)
    except (ValueError, TypeError, BacoError) as error:
        raise argparse.ArgumentTypeError(" ".join(str(error).split())) from None
