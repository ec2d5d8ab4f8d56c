"""The arguments of all commands: a class is the one definition of each, as for the tables of a run file.

Its fields are the arguments: one without a default is required, a ``bool`` is a switch, and a list may have several
values. Its docstring has the line in the list of commands, a description, and the meanings.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from inspect import cleandoc
from pathlib import Path
from types import MappingProxyType, NoneType, UnionType
from typing import Annotated, Any, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

from typing_extensions import override

from baco_like._docstrings import meanings_of

# Types of values ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Form:
    """How a value is written.

    Attributes:
        value: Its name in the help.
        read: Returns the value of a text; raises an error of argparse.
        names: The names of the argument, with commas between them; by default that of the field.
        choices: The allowed words.
    """

    value: str
    read: Callable[[str], Any] = str
    names: str = ""
    choices: Any = None


class _FormatNames:
    """The names of the formats of a package, imported when they are needed: ``baco-like --help`` loads no NumPy."""

    def __init__(self, package: str) -> None:
        self._package = package

    def __iter__(self) -> Iterator[str]:
        return iter(importlib.import_module(f"baco_like.{self._package}.formats").FORMATS)


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


Count: TypeAlias = Annotated[int, _Form("N", _whole(1))]
Number: TypeAlias = Annotated[int, _Form("N", _whole(0))]
Seed: TypeAlias = Annotated[int, _Form("S", _whole(0))]
Seconds: TypeAlias = Annotated[float, _Form("S", _positive)]
Text: TypeAlias = Annotated[str, _Form("TEXT")]
Label: TypeAlias = Annotated[str, _Form("NAME")]
Name: TypeAlias = Annotated[str, _Form("NAME", _name)]
Command: TypeAlias = Annotated[str, _Form("COMMAND")]
File: TypeAlias = Annotated[Path, _Form("FILE", _path)]
Folder: TypeAlias = Annotated[Path, _Form("DIR", _path)]
RunFile: TypeAlias = Annotated[Path, _Form("FILE.toml", _path)]
Run: TypeAlias = Annotated[Path, _Form("RUN", _path)]
RunOrAddress: TypeAlias = Annotated[str, _Form("RUN", _name)]
Task: TypeAlias = Annotated[Mapping[str, Any], _Form("NAME=VALUE,...", _task)]
TaskChoice: TypeAlias = Annotated[Mapping[str, Any] | str, _Form("TASK", _task_or_name)]
OutFolder: TypeAlias = Annotated[Path, _Form("DIR", _path, "-o, --out")]
OutFile: TypeAlias = Annotated[Path, _Form("FILE", _path, "-o, --out")]
Target: TypeAlias = Annotated[Path, "target"]
"""An output that is the last argument, or has the option that the other commands have."""

_MEASURES = ("instructions", "size", "cycles", "time")
_NO_TASK: Mapping[str, Any] = MappingProxyType({})

# Commands -------------------------------------------------------------------------------------------------------------

_COMMANDS: dict[str, Any] = {}
"""The definitions by the module in this package and the function, which has the name of the command."""


class _Definition:
    @override
    def __init_subclass__(cls, at: str) -> None:
        _COMMANDS[at] = cls


class Tune(_Definition, at="runs.tune"):
    """Tune what a run file describes.

    Attributes:
        file: Run file: space, objective, evaluator, budget and more.
        budget: Evaluations (default: the file's).
        seed: Seed of the run (default: the file's, else 0).
        out: Folder of the results (default: a new one in runs/).
        resume: Continue the run in --out (default: the newest).
        report: Write report.html too, for a browser.
        slots: Device slots, such as cuda:0,cuda:1 (default: the file's).
        task: Tune only this one of the file's [tasks], such as n=512 or A4000.
        worker: Share the run in --out with other processes, each with another name.
        lease: A trial without a result is suggested again after S seconds without a sign of its process.
        large: Read files of results with more than 64 MiB unpacked.
    """

    file: RunFile
    budget: Count | None = None
    seed: Seed | None = None
    out: OutFolder | None = None
    resume: bool = False
    report: bool = False
    slots: Annotated[list[str], _Form("A,B", _words)] | None = None
    task: TaskChoice | None = None
    worker: Name | None = None
    lease: Seconds | None = None
    large: bool = False


class Flags(_Definition, at="starting.flags"):
    """Tune the flags of a build command: write a run file and start it.

    Write a run file that tunes all flags of a build command, print its path, and start it.

    Attributes:
        build: Build command with {flags}, such as 'gcc -O2 {flags} app.c -o {workdir}/app'.
        run: Command to measure, such as '{workdir}/app'.
        size: Minimise the bytes of code and constants of the built program, not the time.
        pattern: Regular expression of the measured time in the output (default: the wall time).
        check: Its exit code 0 means that the result is correct.
        compiler: Compiler that is asked for its flags (default: first word of the build command).
        file: Run file to write; commands run in its folder (default: a name after the program).
        write_only: Only write the run file.
        budget: Evaluations (default: 60).
        seed: Seed of the run (default: 0).
        out: Folder of the results (default: a new one in runs/).
    """

    build: Command
    run: Command | None = None
    size: bool = False
    pattern: Annotated[str, _Form("REGEX")] | None = None
    check: Command | None = None
    compiler: Label | None = None
    file: RunFile | None = None
    write_only: bool = False
    budget: Count = 60
    seed: Seed = 0
    out: OutFolder | None = None


class Passes(_Definition, at="starting.passes"):
    """Find LLVM's best passes for a C program: write a run file and start it.

    Write a run file that searches a pipeline of LLVM's passes for a program, print its path, and start it.

    Attributes:
        sources: Sources in C, or bitcode, of one program.
        measure: What is minimised: %(choices)s (default: instructions).
        passes: All (default), O0 to O3, Os, Oz: the passes to choose from.
        arguments: Arguments of the program.
        cflags: Flags of the sources, such as -DN=100.
        opt: Opt of LLVM (default: the newest).
        no_check: Do not run the program to compare its output.
        file: Run file to write; commands run in its folder (default: a name after the program).
        write_only: Only write the run file.
        budget: Evaluations (default: 200).
        seed: Seed of the run (default: 0).
        out: Folder of the results (default: a new one in runs/).
    """

    sources: Sequence[Annotated[Path, _Form("SOURCE", _path)]]
    measure: Annotated[str, _Form("M", choices=_MEASURES)] = "instructions"
    passes: Annotated[str, _Form("SET")] = "all"
    arguments: Text | None = None
    cflags: Text | None = None
    opt: Label | None = None
    no_check: bool = False
    file: RunFile | None = None
    write_only: bool = False
    budget: Count = 200
    seed: Seed = 0
    out: OutFolder | None = None


class Show(_Definition, at="journals.show"):
    """Show the status, the best trials and the failures of a run.

    Attributes:
        journal: Journal or folder of a run, or http://HOST:PORT/RUN on a server; it is only read.
        token_file: File with the token of the server (default: the variable BACO_LIKE_TOKEN).
        top: Number of best trials (default: 5).
        trial: Everything about this trial, with its log.
        task: The configuration that is recommended for this task, such as n=512.
    """

    journal: RunOrAddress
    token_file: File | None = None
    top: Count = 5
    trial: Number | None = None
    task: TaskChoice | None = None


class Watch(_Definition, at="journals.watch"):
    """Follow a run that another process tunes.

    Attributes:
        journal: Journal or folder of a run, or http://HOST:PORT/RUN on a server; it is only read.
        token_file: File with the token of the server (default: the variable BACO_LIKE_TOKEN).
        top: Number of best trials (default: 5).
        interval: Seconds between two updates (default: 2).
    """

    journal: RunOrAddress
    token_file: File | None = None
    top: Count = 5
    interval: Annotated[int, _Form("S", _whole(1))] = 2


class Report(_Definition, at="journals.report"):
    """Write the report of a run: one HTML file that answers ten questions.

    Attributes:
        journal: Journal or folder of a run, or http://HOST:PORT/RUN on a server; it is only read.
        token_file: File with the token of the server (default: the variable BACO_LIKE_TOKEN).
        out: The file to write (default: as the journal, with .html).
        peak: Best value that the machine allows (default: the run file's).
    """

    journal: RunOrAddress
    token_file: File | None = None
    out: OutFile | None = None
    peak: Annotated[float, _Form("VALUE", _positive)] | None = None


class Rebuild(_Definition, at="journals.rebuild"):
    """Print or run the exact commands of a trial.

    Attributes:
        journal: Journal or folder of a run; it is only read.
        trial: The trial (default: the winner).
        task: The configuration that is recommended for this task, such as n=512.
        execute: Run the commands too.
        workdir: Folder for {workdir} (default: trial-N).
        trust: Start the compiler of [flags], whatever program it is.
        folder: Folder of the run file (default: as in the journal).
    """

    journal: Run
    trial: Number | None = None
    task: TaskChoice | None = None
    execute: Annotated[bool, _Form("", names="--run")] = False
    workdir: Folder | None = None
    trust: bool = False
    folder: Folder | None = None


class Simplify(_Definition, at="runs.simplify"):
    """Set parameters of the winner back to their defaults where that changes nothing.

    Attributes:
        run: Folder or journal of a run, or its run file (then its newest run).
        run_file: Run file with the evaluator; trust it like a Makefile.
        budget: Measurements of all tests so far (default: a quarter of the builds, at least 15).
    """

    run: Run
    run_file: RunFile | None = None
    budget: Count | None = None


class Ship(_Definition, at="shipped.ship"):
    """Write the winners of runs as a file that another program loads.

    Attributes:
        sources: Journals of runs, one for each task; or one table that --format json has written.
        format: %(choices)s.
        out: The file; an old one is replaced.
        task: Descriptor of a journal's task, such as n=512,device=A4000; once for each journal.
        constraint: Known constraint that reads descriptors, such as 'tile <= n'; may be repeated.
        device: The device (default: the model of the CPU).
        name: Beginning of the names in a C header, or tuning key of a wisdom file (default: FILE's).
    """

    sources: Sequence[Annotated[Path, _Form("RUN.jsonl", _path)]]
    format: Annotated[str, _Form("FORMAT", names="--format", choices=_FormatNames("shipping"))]
    out: OutFile
    task: Sequence[Task] = ()
    constraint: Sequence[Text] = ()
    device: Label | None = None
    name: Label | None = None


class Check(_Definition, at="shipped.check"):
    """Measure a shipped winner and the default again; exit 0, 1 (regressed) or 2 (cannot tell).

    Measure the winner and the default configuration by turns, and compare their ratio with the one of the shipped
    table. Exit code: 0 fine, 1 regressed, 2 cannot tell.

    Attributes:
        file: Table of 'ship --format json', journal, or run file (then the journal of its newest run).
        run_file: Run file with the evaluator; trust it like a Makefile.
        task: Entry to check, if FILE has several.
        slowdown: Slow-down to find, in percent (default: 5).
        rounds: Largest number of rounds (default: 160).
        seed: For the order in the rounds.
        record: Keep these measurements in FILE, a table, for later checks.
        device: Name of this device (default: the model of the CPU).
        report: Write the result as JSON too.
    """

    file: File
    run_file: RunFile | None = None
    task: Task = _NO_TASK
    slowdown: Annotated[float, _Form("P", _percent)] = 5.0
    rounds: Annotated[int, _Form("N", _whole(5))] = 160
    seed: Seed = 0
    record: bool = False
    device: Label | None = None
    report: File | None = None


class Serve(_Definition, at="serving.serve"):
    """Suggest to a program in any language, over stdin and stdout or HTTP.

    With --json or --http, answer requests of JSON-RPC 2.0; FILE is a run file, or JSON with a space. Otherwise speak
    HyperMapper's and BaCO's client-server protocol; FILE is a scenario.

    Attributes:
        file: Run file or JSON with a space (--json, --http: optional), or scenario.
        json: Messages on stdin and stdout, one per line.
        include: Print the folder of the C++ header baco_like.hpp.
        seed: Seed of the run (default: the file's, else 0).
        journal: Keep the run in a journal, or resume it.
        folder: Keep each run in a journal of this folder (default with --http: runs).
        http: Messages over HTTP, such as 127.0.0.1:8765.
        host: HTTP: name by which other machines reach the server; needs a token; may be repeated.
        token_file: HTTP: file with the token that requests must have (default: BACO_LIKE_TOKEN).
        limit: Another limit than `hello` shows, such as most_pending=100000; may be repeated.
        strategy: Of a scenario: use this strategy instead.
        ahead: Of a scenario: proposals to compute while the client measures (default: 0).
        prior: Of a scenario: results of a related task to learn from; may be repeated.
        allow_dir: Of a scenario: another folder in which it may write; may be repeated.
        large: Read files of results with more than 64 MiB unpacked.
    """

    file: Annotated[Path, _Form("FILE", _path, "file")] | None = None
    json: bool = False
    include: bool = False
    seed: Seed | None = None
    journal: File | None = None
    folder: Folder | None = None
    http: Annotated[tuple[str, int], _Form("ADDRESS:PORT", _address)] | None = None
    host: Sequence[Label] = ()
    token_file: File | None = None
    limit: Sequence[Annotated[tuple[str, float], _Form("NAME=NUMBER", _limit)]] = ()
    strategy: Label | None = None
    ahead: Number = 0
    prior: Sequence[File] = ()
    allow_dir: Sequence[Folder] = ()
    large: bool = False


class Mcp(_Definition, at="serving.mcp"):
    """Let an agent tune: the Model Context Protocol over stdin and stdout.

    Attributes:
        folder: Folder of the runs; nothing outside it is read or written (default: runs).
        write: Let the agent begin and change runs, and write reports; else it only reads.
    """

    folder: Folder = Path("runs")
    write: bool = False


class Strategies(_Definition, at="comparing.strategies"):
    """List the strategies and their settings."""


class Schema(_Definition, at="schema.schema"):
    """Print the JSON Schema of a run file, for editors.

    Attributes:
        reference: Print the reference in Markdown instead.
        table: Print the schema of 'ship --format json' instead.
        messages: Print the schema of the messages of 'serve --json' instead.
    """

    reference: bool = False
    table: bool = False
    messages: bool = False


class Compare(_Definition, at="comparing.compare"):
    """Compare strategies on run files, recorded spaces and functions.

    Run strategies on run files, recorded spaces and functions with a space, and score them. The same command continues
    an interrupted comparison; more repeats, evaluations, strategies or problems extend a finished one.

    Attributes:
        problems: Run files (.toml), files with T4 results or Kernel Tuner caches (.json, .json.gz), folders of them,
            module:function, or standard problems such as branin or tour_12; or an archive (.zip) to open.
        strategies: Names as in 'baco-like strategies'; settings follow, as in
            genetic_algorithm:population=20:mutation=0.1; a label may precede them, as in
            small=genetic_algorithm:population=8; also samplers of Optuna, as in optuna:TPESampler, and
            module:attribute, a strategy, its class, or a function that makes a foreign tool (default:
            auto,random_search).
        repeats: Runs of each (default: 20).
        budget: Evaluations of a run (default: those of the run file, or 60; on recorded spaces as many as random
            search needs for 95 %% of the way to the optimum).
        seed: The runs have seeds S, S + 1 and so on.
        jobs: Processes (default: 2); run files whose values are not exact are measured one at a time.
        direction: Of recorded values, where the file does not say (default: minimize).
        draw: Draw each value from the recorded repeats; configurations may be evaluated again.
        out: Folder of the results (default: runs/compare, or runs/NAME for an archive).
        archive: Write data, plan, tables, figures and inputs into a zip file, to publish or to repeat the study.
        again: Make the evaluations of an archive again, too: this runs the programs in it.
        large: Read files of results with more than 64 MiB unpacked.
    """

    problems: Sequence[Annotated[str, _Form("PROBLEM")]]
    strategies: Annotated[Sequence[str], _Form("A,B,C", _words)] = ("auto", "random_search")
    repeats: Annotated[int, _Form("N", _whole(2, " (for intervals)"))] = 20
    budget: Count | None = None
    seed: Seed = 0
    jobs: Count = 2
    direction: Literal["minimize", "maximize"] | None = None
    draw: bool = False
    out: OutFolder | None = None
    archive: Annotated[Path, _Form("FILE.zip", _path)] | None = None
    again: bool = False
    large: bool = False


class Repair(_Definition, at="journals.repair"):
    """Write the undamaged events of a journal into a new one.

    Attributes:
        old: Damaged journal; it is not changed.
        new: New journal; must not exist.
        header: Another journal of the same run, if event 0 is damaged.
    """

    old: Annotated[Path, _Form("OLD", _path)]
    new: Target
    header: File | None = None


class Export(_Definition, at="exchange.export"):
    """Write a journal, or results of another tool, in a format of another tool.

    Attributes:
        source: A journal, T4, Kernel Tuner, KTT, CSV.
        target: New file; must not exist.
        format: Of the target: %(choices)s; a name that ends in .gz is compressed.
        objective: The measurement to optimize (default: the file's).
        task: Only the results of this task, such as n=512, without its descriptor.
        large: Read files of results with more than 64 MiB unpacked.
    """

    source: Annotated[Path, _Form("SOURCE", _path)]
    target: Target
    format: Annotated[str, _Form("FORMAT", names="--format", choices=_FormatNames("results"))]
    objective: Label | None = None
    task: Task = _NO_TASK
    large: bool = False


# The parser -----------------------------------------------------------------------------------------------------------


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line; it stores where the command is as ``function``: a module and its name."""
    parser = argparse.ArgumentParser(
        prog="baco-like",
        description="Tune compilers and kernels: suggest the next configuration to measure.",
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for function, definition in _COMMANDS.items():
        about = cleandoc(definition.__doc__ or "").partition("Attributes:")[0]
        summary, _, description = about.partition("\n\n")
        own = commands.add_parser(
            function.partition(".")[2],
            help=_sentence_to_phrase(summary),
            description=description.strip() or None,
        )
        own.set_defaults(function=function)
        meanings = meanings_of(definition)
        for name, hint in get_type_hints(definition, include_extras=True).items():
            default = getattr(definition, name, _REQUIRED)
            meaning = meanings.get(name, "")  # python -OO has none
            _add_argument(own, name, hint, default, _sentence_to_phrase(meaning))
    return parser


_REQUIRED: Any = object()


def _sentence_to_phrase(text: str) -> str:
    text = text.rstrip(".")
    return text if text[1:2].isupper() else text[:1].lower() + text[1:]


def _add_argument(parser: Any, name: str, hint: Any, default: Any, meaning: str) -> None:
    """Add the argument that a field of a definition describes."""
    if get_origin(hint) in (Union, UnionType):
        (hint,) = (part for part in get_args(hint) if part is not NoneType)
    several = get_origin(hint) is Sequence
    hint = get_args(hint)[0] if several else hint
    marks = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    if "target" in marks:
        _add_target(parser, name, meaning)
        return
    form = next((mark for mark in marks if isinstance(mark, _Form)), _Form(""))
    is_required = default is _REQUIRED
    names = (form.names or (name if is_required else f"--{name.replace('_', '-')}")).split(", ")
    settings: dict[str, Any] = {"help": meaning}
    if names[0].startswith("-") and names != [f"--{name}"]:
        settings["dest"] = name
    if hint is bool or (marks and get_args(hint)[0] is bool):
        parser.add_argument(*names, action="store_true", **settings)
        return
    settings |= {"type": form.read, "metavar": form.value or None, "default": default}
    settings["choices"] = get_args(hint) if get_origin(hint) is Literal else form.choices
    if is_required:
        del settings["default"]
        settings |= {"required": True} if names[0].startswith("-") else {}
    if several:
        settings |= {"nargs": "+"} if is_required else {"action": "append", "default": []}
    elif not is_required and not names[0].startswith("-"):
        settings["nargs"] = "?"
    parser.add_argument(*names, **settings)


def _add_target(parser: Any, name: str, meaning: str) -> None:
    """Add an output that is the last argument, or an option."""
    either = parser.add_mutually_exclusive_group(required=True)
    absent = argparse.SUPPRESS  # keeps the value of the option
    settings = {"metavar": name.upper(), "help": meaning}

    def as_path(given: str) -> Any:
        return given if given is absent else _path(given)  # argparse converts defaults, too

    either.add_argument(name, type=as_path, nargs="?", default=absent, **settings)
    settings["help"] = "the same as an option"
    either.add_argument("-o", "--out", type=_path, dest=name, **settings)
