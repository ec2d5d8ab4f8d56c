"""The arguments of all commands."""

from __future__ import annotations

import argparse
import importlib
import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    pass


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line; it stores where the command is as ``function``: a module and its name."""
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
    _add_mcp(commands)
    _command(commands, "comparing.strategies", "list the strategies and their settings")
    _add_schema(commands)
    _add_compare(commands)
    _add_repair(commands)
    _add_export(commands)
    return parser


class _Arguments:
    """The arguments of a command, or of a group of them.

    Args:
        parser: The parser of the command, or the group.
    """

    def __init__(self, parser: Any) -> None:
        self._parser = parser

    def __call__(
        self, names: str, meaning: str, value: str | None = None, kind: Any = str, **settings: Any
    ) -> None:
        """Add an argument.

        Args:
            names: Its name, or several with commas between them.
            meaning: The help.
            value: The name of its value in the help; None makes a switch.
            kind: The type of its value.
            settings: As for `argparse.ArgumentParser.add_argument`.
        """
        if value is None:
            settings["action"] = "store_true"
        else:
            settings |= {"metavar": value, "type": kind}
        self._parser.add_argument(*names.split(", "), help=meaning, **settings)

    def either(self) -> _Arguments:
        """Return a group of arguments of which one must be given."""
        return _Arguments(self._parser.add_mutually_exclusive_group(required=True))


def _command(
    commands: Any, function: str, summary: str, description: str | None = None
) -> _Arguments:
    """Add a command.

    Args:
        commands: The commands of the parser.
        function: The module in this package and the function, which has the name of the command.
        summary: The line in the list of commands.
        description: The text above the arguments of the command.
    """
    name = function.partition(".")[2]
    parser = commands.add_parser(name, help=summary, description=description)
    parser.set_defaults(function=function)
    return _Arguments(parser)


# Commands -------------------------------------------------------------------------------------------------------------


def _add_tune(commands: Any) -> None:
    add = _command(commands, "runs.tune", "tune what a run file describes")
    add("file", "run file: space, objective, evaluator, budget, ...", "FILE.toml", _path)
    add("--budget", "evaluations (default: the file's)", "N", _whole(1))
    add("--seed", "seed of the run (default: the file's, else 0)", "S", _whole(0))
    _add_out(add, "DIR", "folder of the results (default: a new one in runs/)")
    add("--resume", "continue the run in --out (default: the newest)")
    add("--report", "write report.html too, for a browser")
    slots = "device slots, such as cuda:0,cuda:1 (default: the file's)"
    add("--slots", slots, "A,B", _words)
    task = "tune only this one of the file's [tasks], such as n=512 or A4000"
    add("--task", task, "TASK", _task_or_name)
    worker = "share the run in --out with other processes, each with another name"
    add("--worker", worker, "NAME", _name)
    lease = (
        "a trial without a result is suggested again after S seconds without a sign of its process"
    )
    add("--lease", lease, "S", _positive)
    _add_large(add)


def _add_flags(commands: Any) -> None:
    add = _command(
        commands,
        "starting.flags",
        "tune the flags of a build command: write a run file and start it",
        "Write a run file that tunes all flags of a build command, print its path, and start it.",
    )
    build = "build command with {flags}, such as 'gcc -O2 {flags} app.c -o {workdir}/app'"
    add("build", build, "COMMAND")
    add("--run", "command to measure, such as '{workdir}/app'", "COMMAND")
    add("--size", "minimise the bytes of code and constants of the built program, not the time")
    pattern = "regular expression of the measured time in the output (default: the wall time)"
    add("--pattern", pattern, "REGEX")
    add("--check", "its exit code 0 means that the result is correct", "COMMAND")
    compiler = "compiler that is asked for its flags (default: first word of the build command)"
    add("--compiler", compiler, "NAME")
    _add_start(add, 60)


def _add_passes(commands: Any) -> None:
    add = _command(
        commands,
        "starting.passes",
        "find LLVM's best passes for a C program: write a run file and start it",
        "Write a run file that searches a pipeline of LLVM's passes for a program, print its path, and start it.",
    )
    add("sources", "sources in C, or bitcode, of one program", "SOURCE", _path, nargs="+")
    measures = ("instructions", "size", "cycles", "time")
    measure = "what is minimised: %(choices)s (default: instructions)"
    add("--measure", measure, "M", choices=measures, default=measures[0])
    passes = "all (default), O0 to O3, Os, Oz: the passes to choose from"
    add("--passes", passes, "SET", default="all")
    add("--arguments", "arguments of the program", "TEXT")
    add("--cflags", "flags of the sources, such as -DN=100", "TEXT")
    add("--opt", "opt of LLVM (default: the newest)", "NAME")
    add("--no-check", "do not run the program to compare its output")
    _add_start(add, 200)


def _add_start(add: _Arguments, budget: int) -> None:
    """Add the arguments of a command that writes a run file and starts it."""
    file = "run file to write; commands run in its folder (default: a name after the program)"
    add("--file", file, "FILE.toml", _path)
    add("--write-only", "only write the run file")
    add("--budget", f"evaluations (default: {budget})", "N", _whole(1), default=budget)
    _add_seed(add)
    _add_out(add, "DIR", "folder of the results (default: a new one in runs/)")


def _add_show(commands: Any) -> None:
    summary = "show the status, the best trials and the failures of a run"
    add = _command(commands, "journals.show", summary)
    _add_run(add)
    _add_top(add)
    add("--trial", "everything about this trial, with its log", "N", _whole(0))
    _add_task_choice(add)


def _add_watch(commands: Any) -> None:
    add = _command(commands, "journals.watch", "follow a run that another process tunes")
    _add_run(add)
    _add_top(add)
    add("--interval", "seconds between two updates (default: 2)", "S", _whole(1), default=2)


def _add_report(commands: Any) -> None:
    summary = "write the report of a run: one HTML file that answers ten questions"
    add = _command(commands, "journals.report", summary)
    _add_run(add)
    _add_out(add, "FILE", "the file to write (default: as the journal, with .html)")
    peak = "best value that the machine allows (default: the run file's)"
    add("--peak", peak, "VALUE", _positive)


def _add_rebuild(commands: Any) -> None:
    add = _command(commands, "journals.rebuild", "print or run the exact commands of a trial")
    _add_journal(add)
    add("--trial", "the trial (default: the winner)", "N", _whole(0))
    _add_task_choice(add)
    add("--run", "run the commands too", dest="execute")
    add("--workdir", "folder for {workdir} (default: trial-N)", "DIR", _path)
    add("--trust", "start the compiler of [flags], whatever program it is")
    add("--folder", "folder of the run file (default: as in the journal)", "DIR", _path)


def _add_simplify(commands: Any) -> None:
    summary = "set parameters of the winner back to their defaults where that changes nothing"
    add = _command(commands, "runs.simplify", summary)
    run = "folder or journal of a run, or its run file (then its newest run)"
    add("run", run, "RUN", _path)
    _add_run_file(add)
    budget = "measurements of all tests so far (default: a quarter of the builds, at least 15)"
    add("--budget", budget, "N", _whole(1))


def _add_ship(commands: Any) -> None:
    summary = "write the winners of runs as a file that another program loads"
    add = _command(commands, "shipped.ship", summary)
    sources = "journals of runs, one for each task; or one table that --format json has written"
    add("sources", sources, "RUN.jsonl", _path, nargs="+")
    add("--format", "%(choices)s", "FORMAT", choices=_FormatNames("shipping"), required=True)
    _add_out(add, "FILE", "the file; an old one is replaced", required=True)
    task = "descriptor of a journal's task, such as n=512,device=A4000; once for each journal"
    add("--task", task, "NAME=VALUE,...", _task, action="append", default=[])
    constraint = "known constraint that reads descriptors, such as 'tile <= n'; may be repeated"
    add("--constraint", constraint, "TEXT", action="append", default=[])
    add("--device", "the device (default: the model of the CPU)", "NAME")
    name = "beginning of the names in a C header, or tuning key of a wisdom file (default: FILE's)"
    add("--name", name, "NAME")


def _add_check(commands: Any) -> None:
    add = _command(
        commands,
        "shipped.check",
        "measure a shipped winner and the default again; exit 0, 1 (regressed) or 2 (cannot tell)",
        "Measure the winner and the default configuration by turns, and compare their ratio with the one of the "
        "shipped table. Exit code: 0 fine, 1 regressed, 2 cannot tell.",
    )
    file = (
        "table of 'ship --format json', journal, or run file (then the journal of its newest run)"
    )
    add("file", file, "FILE", _path)
    _add_run_file(add)
    add("--task", "entry to check, if FILE has several", "NAME=VALUE,...", _task, default={})
    add("--slowdown", "slow-down to find, in percent (default: 5)", "P", _percent, default=5.0)
    add("--rounds", "largest number of rounds (default: 160)", "N", _whole(5), default=160)
    _add_seed(add, "for the order in the rounds")
    add("--record", "keep these measurements in FILE, a table, for later checks")
    add("--stamp", "only compare the stamp of any shipped file with this machine; measure nothing")
    add("--device", "name of this device (default: the model of the CPU)", "NAME")
    retune = "after a regression, spend N evaluations on a new run that starts with the old results"
    add("--retune", retune, "N", _whole(1))
    _add_out(add, "DIR", "folder of the run of --retune (default: a new one in runs/)")
    add("--report", "write the result as JSON too", "FILE", _path)


def _add_serve(commands: Any) -> None:
    add = _command(
        commands,
        "serving.serve",
        "suggest to a program in any language, over stdin and stdout or HTTP",
        "With --json or --http, answer requests of JSON-RPC 2.0; FILE is a run file, or JSON with a space. Otherwise "
        "speak HyperMapper's and BaCO's client-server protocol; FILE is a scenario.",
    )
    file = "run file or JSON with a space (--json, --http: optional), or scenario"
    add("file", file, "FILE", _path, nargs="?")
    add("--json", "messages on stdin and stdout, one per line")
    add("--include", "print the folder of the C++ header baco_like.hpp")
    add("--seed", "seed of the run (default: the file's, else 0)", "S", _whole(0))
    add("--journal", "keep the run in a journal, or resume it", "FILE", _path)
    add("--folder", "keep each run in a journal of this folder", "DIR", _path)
    add("--http", "messages over HTTP, such as 127.0.0.1:8765", "ADDRESS:PORT", _address)
    hosts = "HTTP: name by which other machines reach the server; needs a token; may be repeated"
    add("--host", hosts, "NAME", action="append", default=[])
    token = "HTTP: file with the token that requests must have (default: BACO_LIKE_TOKEN)"
    add("--token-file", token, "FILE", _path)
    limit = "another limit than `hello` shows, such as most_pending=100000; may be repeated"
    add("--limit", limit, "NAME=NUMBER", _limit, action="append", default=[])
    add("--strategy", "of a scenario: use this strategy instead", "NAME")
    ahead = "of a scenario: proposals to compute while the client measures (default: 0)"
    add("--ahead", ahead, "N", _whole(0), default=0)
    related = "of a scenario: results of a related task to learn from; may be repeated"
    add("--prior", related, "FILE", _path, action="append", default=[])
    folder = "of a scenario: another folder in which it may write; may be repeated"
    add("--allow-dir", folder, "DIR", _path, action="append", default=[])
    _add_large(add)


def _add_mcp(commands: Any) -> None:
    summary = "let an agent tune: the Model Context Protocol over stdin and stdout"
    add = _command(commands, "serving.mcp", summary)
    folder = "folder of the runs; nothing outside it is read or written (default: runs)"
    add("--folder", folder, "DIR", _path, default=Path("runs"))
    add("--write", "let the agent begin and change runs, and write reports; else it only reads")


def _add_schema(commands: Any) -> None:
    add = _command(commands, "schema.schema", "print the JSON Schema of a run file, for editors")
    add("--reference", "print the reference in Markdown instead")
    add("--table", "print the schema of 'ship --format json' instead")
    add("--messages", "print the schema of the messages of 'serve --json' instead")


def _add_compare(commands: Any) -> None:
    add = _command(
        commands,
        "comparing.compare",
        "compare strategies on run files, recorded spaces and functions",
        "Run strategies on run files, recorded spaces and functions with a space, and score them. The same command "
        "continues an interrupted comparison; more repeats, evaluations, strategies or problems extend a finished one.",
    )
    problems = (
        "run files (.toml), files with T4 results or Kernel Tuner caches (.json, .json.gz), folders of them, "
        "module:function, or standard problems such as branin or tour_12; or an archive (.zip) to open"
    )
    add("problems", problems, "PROBLEM", nargs="+")
    names = (
        "names as in 'baco-like strategies'; settings follow, as in genetic_algorithm:population=20:mutation=0.1; "
        "a label may precede them, as in small=genetic_algorithm:population=8; also samplers of Optuna, as in "
        "optuna:TPESampler, and module:attribute, a strategy, its class, or a function that makes a foreign tool "
        "(default: auto,random_search)"
    )
    add("--strategies", names, "A,B,C", _words, default="auto,random_search")
    repeats = _whole(2, " (for intervals)")
    add("--repeats", "runs of each (default: 20)", "N", repeats, default=20)
    budget = (
        "evaluations of a run (default: those of the run file, or 60; on recorded spaces as many as random search "
        "needs for 95 %% of the way to the optimum)"
    )
    add("--budget", budget, "N", _whole(1))
    _add_seed(add, "the runs have seeds S, S + 1, ...")
    jobs = "processes (default: 2); run files whose values are not exact are measured one at a time"
    add("--jobs", jobs, "N", _whole(1), default=2)
    direction = "of recorded values, where the file does not say (default: minimize)"
    add("--direction", direction, "{minimize,maximize}", choices=["minimize", "maximize"])
    draw = "draw each value from the recorded repeats; configurations may be evaluated again"
    add("--draw", draw)
    _add_out(
        add, "DIR", "folder of the results (default: runs/compare, or runs/NAME for an archive)"
    )
    archive = "write data, plan, tables, figures and inputs into a zip file, to publish or to repeat the study"
    add("--archive", archive, "FILE.zip", _path)
    add("--again", "make the evaluations of an archive again, too: this runs the programs in it")
    _add_large(add)


def _add_repair(commands: Any) -> None:
    add = _command(
        commands, "journals.repair", "write the undamaged events of a journal into a new one"
    )
    add("old", "damaged journal; it is not changed", "OLD", _path)
    _add_target(add, "new", "new journal; must not exist")
    header = "another journal of the same run, if event 0 is damaged"
    add("--header", header, "FILE", _path)


def _add_export(commands: Any) -> None:
    summary = "write a journal, or results of another tool, in a format of another tool"
    add = _command(commands, "exchange.export", summary)
    add("source", "a journal, T4, Kernel Tuner, KTT, CSV", "SOURCE", _path)
    _add_target(add, "target", "new file; must not exist")
    target = "of the target: %(choices)s; a name that ends in .gz is compressed"
    add("--format", target, "FORMAT", choices=_FormatNames("results"), required=True)
    add("--objective", "the measurement to optimize (default: the file's)", "NAME")
    task = "only the results of this task, such as n=512, without its descriptor"
    add("--task", task, "NAME=VALUE,...", _task, default={})
    _add_large(add)


# Arguments of several commands ----------------------------------------------------------------------------------------


def _add_journal(add: _Arguments) -> None:
    add("journal", "journal or folder of a run; it is only read", "RUN", _path)


def _add_run(add: _Arguments) -> None:
    run = "journal or folder of a run, or http://HOST:PORT/RUN on a server; it is only read"
    add("journal", run, "RUN", _name)
    token = "file with the token of the server (default: the variable BACO_LIKE_TOKEN)"
    add("--token-file", token, "FILE", _path)


def _add_top(add: _Arguments) -> None:
    add("--top", "number of best trials (default: 5)", "N", _whole(1), default=5)


def _add_task_choice(add: _Arguments) -> None:
    task = "the configuration that is recommended for this task, such as n=512"
    add("--task", task, "TASK", _task_or_name)


def _address(text: str) -> tuple[str, int]:
    """Return the address and the port of ``127.0.0.1:8765``, ``[::1]:8765`` or ``8765``."""
    host, _, port = text.rpartition(":")
    if not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r}: expected an address such as 127.0.0.1:8765")
    return host.strip("[]") or "127.0.0.1", int(port)


def _limit(text: str) -> tuple[str, float]:
    name, _, number = text.partition("=")
    try:
        return name.strip().replace("-", "_"), float(number)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: expected NAME=NUMBER") from None


def _add_seed(add: _Arguments, meaning: str = "seed of the run (default: 0)") -> None:
    add("--seed", meaning, "S", _whole(0), default=0)


def _add_run_file(add: _Arguments) -> None:
    run_file = "run file with the evaluator; trust it like a Makefile"
    add("--run-file", run_file, "FILE.toml", _path)


def _add_out(add: _Arguments, value: str, meaning: str, **settings: Any) -> None:
    add("-o, --out", meaning, value, _path, **settings)


def _add_target(add: _Arguments, name: str, meaning: str) -> None:
    """Add an output that is the last argument, or has the option that the other commands have."""
    either = add.either()
    absent = argparse.SUPPRESS  # keeps the value of the option

    def as_path(given: str) -> Any:
        return given if given is absent else _path(given)  # argparse converts defaults, too

    either(name, meaning, name.upper(), as_path, nargs="?", default=absent)
    _add_out(either, name.upper(), "the same as an option", dest=name)


def _add_large(add: _Arguments) -> None:
    add("--large", "read files of results with more than 64 MiB unpacked")


class _FormatNames:
    """The names of the formats of a package, imported when they are needed: ``baco-like --help`` loads no NumPy."""

    def __init__(self, package: str) -> None:
        self._package = package

    def __iter__(self) -> Iterator[str]:
        return iter(importlib.import_module(f"baco_like.{self._package}.formats").FORMATS)


# Types of values ------------------------------------------------------------------------------------------------------


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
