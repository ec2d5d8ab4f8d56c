"""11. Read mutated files of every kind: only the documented errors, little memory, no hang, no execution.

    python benchmarks/reliability/fuzz.py [--quick] [--seconds 120] [--target NAME] [--keep DIR]

Targets: journals (changed bytes, and changed events with a correct checksum; they are shown, opened, continued and
repaired), TOML files of `tune`, T1 and BaCO space files and scenarios, T4 and Kernel Tuner results, the CSV files, and
the replies of the client-server protocol. An input with a new outcome (another error, or from another line) is mutated
again. Targets named "hostile" read inputs made to exhaust a reader (`hostile.py`): lines of a gigabyte, thousands of
dots and brackets, odd cells, archives that unpack to 1.5 GB, files with holes. Each target runs in a separate process.
The peak memory and the time of each input are bounded. A file that ran a command or wrote elsewhere would leave a
trace, which is searched for. A failing input is written to `--keep`.
"""

import contextlib
import json
import os
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
import warnings
import zlib
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, TextIO

import hostile
from harness import SPACE, Report, chosen, forked, observe, parser, scratch
from mutations import CANARY, bytes_changed, document_changed, json_changed

from baco_like import Optimizer, Sharing, Space, SpaceExhausted
from baco_like.evaluators.replay import load
from baco_like.exceptions import BacoError
from baco_like.integrations import read_samples, read_scenario, write_samples
from baco_like.integrations.hypermapper.server import ServeOptions, serve
from baco_like.journal.repairing import repair
from baco_like.records.confirmation import ConfirmationPlan
from baco_like.results import write
from baco_like.results.hypermapper_csv import Layout
from baco_like.results.recording import recorded_trials
from baco_like.running.journal_view import JournalView, describe_run, describe_trial
from baco_like.running.run_file import read as read_toml

MEMORY = 500
"""MB of resident memory that a process may use while it reads an input."""

LARGE_MEMORY = 2000
"""The same for files of results of up to 64 MiB, the limit of the readers."""

PATIENCE = 120
"""Seconds of processor time for one input; two readings of 266,000 rows took 60 on a busy machine."""

Change = Callable[[bytes, list[bytes], random.Random], bytes]


@dataclass(frozen=True)
class Target:
    """A kind of input: valid examples, the mutation, the reader of a file in a folder, and the MB that it may use."""

    seeds: list[bytes]
    change: Change
    read: Callable[[Path], object]
    memory: int = MEMORY

    @property
    def is_mutated(self) -> bool:
        """Whether an input with a new outcome is changed again; hostile inputs would only grow."""
        return self.change.__module__ != hostile.__name__


class Hang(BaseException):
    """An input took too long."""


def hang(number: int, frame: FrameType | None) -> None:
    raise Hang


# The readers -------------------------------------------------------------------------------------------------------


def read_journal(path: Path) -> None:
    path.with_name("new").unlink(missing_ok=True)
    with contextlib.suppress(BacoError):
        repair(path, path.with_name("new"))
        go_on(Optimizer.load(path.with_name("new")))
    look_at(path)
    go_on(Optimizer.load(path, sharing=Sharing(lease=1.0)))


def look_at(path: Path) -> None:
    with contextlib.suppress(BacoError):
        view = JournalView(path)
        describe_run(view, 3)
        for trial in view.history.trials[-2:]:
            describe_trial(view, trial)


def go_on(opt: Optimizer) -> None:
    for _ in range(2):
        with contextlib.suppress(SpaceExhausted):
            opt.observe(opt.suggest(), 1.0)
    assert opt.best_value is None or opt.best_value == opt.best_value
    repr((opt.trials, opt.pending, opt.best))
    opt.to_dataframe()


def read_space(read: Callable[[Path], Space], path: Path) -> None:
    space = read(path)
    space.sample(2, seed=0)
    space.to_dict()


def read_results(path: Path) -> None:
    recorded = load(path)
    for values in recorded.entries:
        recorded.find(dict(zip(recorded.names, values, strict=True)))


def read_run(path: Path) -> None:
    plan = read_toml(path)
    plan.create_evaluator().close()
    plan.space.sample(2, seed=0)


class Client:
    """Answers requests as a client does, and sometimes with the lines of the input instead."""

    def __init__(self, script: TextIO, seed: int) -> None:
        self._script, self._rng = script, random.Random(seed)
        self._replies: list[str] = []

    def write(self, text: str) -> int:
        lines = text.splitlines()
        if lines and lines[0].startswith("Request"):
            names, rows = lines[1], lines[2:]
            self._replies = [f"{names},value,Valid\n"]
            self._replies += [
                f"{row},{len(row) / 3},{'True' if len(row) % 3 else 'False'}\n" for row in rows
            ]
        return len(text)

    def flush(self) -> None:
        pass

    def readline(self, size: int = -1) -> str:
        line = self._script.readline(size) if self._rng.random() < 0.3 else ""
        return line or (self._replies.pop(0) if self._replies else "")


def converse(path: Path) -> None:
    scenario = json.loads(json.dumps(SCENARIO))
    scenario["run_directory"] = str(path.parent / "out")
    with path.open("rb") as file:
        seed = zlib.crc32(file.read(2**20))
    with path.open(encoding="utf-8", errors="replace") as script:
        client: Any = Client(script, seed)
        allowed = {"allow_dirs": [path.parent / "out"]}
        serve(read_scenario(scenario), client, client, lambda text: None, ServeOptions(**allowed))


# The valid inputs --------------------------------------------------------------------------------------------------

SCENARIO = {
    "application_name": "app",
    "optimization_objectives": ["value"],
    "feasible_output": {"enable_feasible_predictor": True, "name": "Valid", "true_value": "True"},
    "design_of_experiment": {"doe_type": "random sampling", "number_of_samples": 4},
    "optimization_iterations": 3,
    "optimization_method": "random_search",
    "input_parameters": {
        "x": {"parameter_type": "ordinal", "values": [1, 2, 4], "constraints": ["x < 3"], "transform": "log"},
        "r": {"parameter_type": "real", "values": [0, 1], "prior": "gaussian"},
        "i": {"parameter_type": "integer", "values": [0, 3], "parameter_default": 2, "dependencies": ["x"],
              "constraints": ["i * x <= 6"]},
        "c": {"parameter_type": "categorical", "values": ["a", "b"], "parameter_default": "a"},
        "p": {"parameter_type": "permutation", "values": [3], "parametrization": "kendall"},
    },
}  # fmt: skip

T1 = {
    "General": {"BenchmarkName": "b"},
    "ConfigurationSpace": {
        "TuningParameters": [
            {"Name": "x", "Type": "int", "Values": "[2**i for i in range(5)]", "Default": 4},
            {"Name": "y", "Type": "int", "Values": [1, 2, 3]},
            {"Name": "s", "Type": "string", "Values": "['a', 'b']"},
        ],
        "Conditions": [
            {"Parameters": ["x", "y"], "Expression": "x * y <= 32 and x % y == 0 or s == 'a'"}
        ],
    },
}

TOML = """
[space.tile]
type = "ordinal"
values = [8, 16, 32]
log = true
default = 16
[space.eps]
type = "real"
low = 1e-6
high = 1e-1
log = true
[space.order]
type = "permutation"
elements = ["i", "j", "k"]
metric = "spearman"
[space.n]
type = "integer"
low = 1
high = 9
[constraints]
known = ["64 % tile == 0", "pos(order, 'k') > pos(order, 'i')", "n * tile < 99"]
[objective]
name = "time"
unit = "ms"
direction = "minimize"
[evaluator]
kind = "command"
build = "true -DTILE={tile} {workdir}/k"
run = "echo {order} {eps} time: 3"
measure = "regex"
pattern = "time: (.*)"
timeout = 1
memory = "1GiB"
[budget]
evaluations = 6
seconds = 6
[optimizer]
strategy = "random_search"
seed = 3
"""


def journal() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "j"
        opt = Optimizer(SPACE, strategy="random_search", storage=path, sharing=Sharing(lease=1.0))
        for _ in range(3):
            observe(opt, opt.suggest())
        one, two = opt.suggest(2)
        opt.abandon(one, "lost")
        opt.observe(two, failed="timeout", bound=3.0, message="m", extra={"seconds": {"run": 1.0}})
        best = opt.trials[0].config
        observe(opt, opt.measure_again(best))  # a control of drift
        opt.start_confirmation(ConfirmationPlan((best,), (0,), None, 0.95, 0.02))
        observe(opt, opt.measure_again(best, "confirmation"))
        opt.observe({"tile": 999}, {"value": 2.0, "energy": 3.0}, imported=True)
        opt.enqueue(SPACE.sample(1, seed=1)[0])
        opt.suggest(2)
        return path.read_bytes()


def forged(data: bytes, others: list[bytes], rng: random.Random) -> bytes:
    """Change the content of an event and recompute its checksum, and those of the lines behind it."""
    lines = data.split(b"\n")[:-1]
    at = rng.randrange(len(lines)) if lines else 0
    try:
        events = [json.loads(line) for line in lines]
        events[at] = document_changed({k: events[at][k] for k in events[at] if k != "crc"}, rng)
        for number, event in enumerate(events[at:], at):
            # A changed prev stays changed, and a journal without a chain gets none.
            chain = {"prev": events[number - 1]["crc"]} if number > at and "prev" in event else {}
            rest = {k: v for k, v in event.items() if k != "crc"}
            text = json.dumps({"n": number, **rest, **chain}, separators=(",", ":"))[1:].encode()
            events[number] = {"crc": f"{zlib.crc32(text):08x}"}
            lines[number] = b'{"crc":"%08x",' % zlib.crc32(text) + text
    except (ValueError, TypeError, AttributeError, KeyError, IndexError, RecursionError):
        return bytes_changed(data, others, rng)
    return b"\n".join(lines) + b"\n"


def results(kind: str) -> bytes:
    opt = Optimizer(SPACE, strategy="random_search", seed=1)
    for _ in range(6):
        observe(opt, opt.suggest())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "results"
        if kind == "t4":
            write(recorded_trials(opt.trials, objective="time", unit="ms"), path, "t4")
        else:
            write_samples(path, opt.trials, Layout(SPACE.parameters, "time"))
        return path.read_bytes()


CACHE = {
    "device_name": "d", "kernel_name": "k", "problem_size": 4, "objective": "time",
    "tune_params_keys": ["a", "b"], "tune_params": {"a": [1, 2], "b": ["x", "y"]},
    "cache": {
        "1,x": {"a": 1, "b": "x", "time": 1.5, "times": [1.4, 1.6], "compile_time": 3.0},
        "2,x": {"a": 2, "b": "x", "time": "RuntimeFailedConfig"},
        "2,y": {"a": 2, "b": "y", "time": 1e20, "__error__": "InvalidConfig"},
    },
}  # fmt: skip

REPLIES = b'x,r,i,c,p,value,Valid\n1,0.5,2,a,"(0, 1, 2)",3.5,True\nnan,1,2\nvalue\nEnd\n1,2,3,4,5,-1,0\n\n2147483647\n'


def targets() -> dict[str, Target]:
    layout = Layout(SPACE.parameters, "time")
    scenario, t1 = json.dumps(SCENARIO).encode(), json.dumps(T1).encode()
    t4, samples = [results("t4"), json.dumps(CACHE).encode()], [results("csv")]

    def read_table(path: Path) -> None:
        with contextlib.suppress(BacoError):
            read_samples(path, layout)
        read_results(path)

    return {
        "journal bytes": Target([journal()], bytes_changed, read_journal),
        "journal events": Target([journal()], forged, read_journal),
        "toml": Target([TOML.encode()], bytes_changed, read_run),
        "t1": Target([t1], json_changed, partial(read_space, Space.from_t1)),
        "baco": Target([scenario], json_changed, partial(read_space, Space.from_baco)),
        "scenario": Target([scenario], json_changed, read_scenario),
        "t4": Target(t4, json_changed, read_results),
        "csv": Target(samples, bytes_changed, read_table),
        "protocol": Target([REPLIES], bytes_changed, converse),
        "hostile protocol": Target([REPLIES], hostile.long_lines, converse),
        "hostile toml": Target([TOML.encode()], hostile.deep_toml, read_run),
        "hostile scenario": Target([scenario], hostile.deep_json, read_scenario),
        "hostile t1": Target([t1], hostile.deep_json, partial(read_space, Space.from_t1)),
        "hostile t4": Target(t4, hostile.deep_json, read_results, LARGE_MEMORY),
        "hostile csv": Target(samples, hostile.odd_cells, read_table),
        "hostile archives": Target([*t4, *samples], hostile.archive, read_table, LARGE_MEMORY),
        "hostile journals": Target([journal()], hostile.long_journal, read_journal),
    }


# The loop ----------------------------------------------------------------------------------------------------------


def where(error: BaseException) -> str:
    """Return an error's type and the line of the package that it comes from."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "baco_like" in frame.filename]
    place = f"{Path(ours[-1].filename).name}:{ours[-1].lineno}" if ours else "?"
    return f"{type(error).__name__} at {place}"


def outcome(target: Target, path: Path) -> tuple[str, str]:
    """Read one input; return its outcome, and a description of the defect or an empty text."""
    signal.setitimer(signal.ITIMER_PROF, PATIENCE, 9)  # again after 9 s, should a reader catch it
    signal.setitimer(signal.ITIMER_REAL, 5 * PATIENCE, 9)  # a reader that waits
    try:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                target.read(path)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.setitimer(signal.ITIMER_REAL, 0)
        return "read", ""
    except BacoError as error:
        return where(error), ""
    except Hang as error:
        return where(error), f"takes more than {PATIENCE} s of CPU ({where(error)})"
    except BaseException as error:
        return where(error), f"{where(error)}: {error}"[:300]


def write_input(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        if isinstance(data, hostile.Sparse):
            file.truncate(len(data) + data.hole)
            file.seek(0, os.SEEK_END)
            file.write(data.tail)


def resident() -> tuple[int, int]:
    """Return the MB of address space, and the largest MB of resident memory since `forget_peak`."""
    words = Path("/proc/self/status").read_text().split()
    size, peak = (int(words[words.index(name) + 1]) for name in ("VmSize:", "VmHWM:"))
    return size // 1024, peak // 1024


def forget_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


@dataclass
class Findings:
    """The outcomes of a target's inputs, as in the JSON file of the target.

    Attributes:
        inputs: Number of inputs.
        ways: Their outcomes.
        wrong: Description of a defect by outcome.
        memory: Largest MB of resident memory.
        seconds: Longest processor time of an input.
    """

    inputs: int = 0
    ways: list[str] = field(default_factory=list)
    wrong: dict[str, str] = field(default_factory=dict)
    memory: int = 0
    seconds: float = 0.0


def fuzz(
    target: Target, name: str, seconds: float, seed: int, folder: Path, keep: Path | None
) -> None:
    """Change and read inputs for some seconds; write the findings to a file of the folder."""
    for number in (signal.SIGALRM, signal.SIGPROF):
        signal.signal(number, hang)
    place = folder / name.replace(" ", "-")
    (place / "out").mkdir(parents=True)
    os.chdir(place)
    limit = (resident()[0] + 2 * max(MEMORY, target.memory)) * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))  # a defect must not exhaust the machine
    rng, corpus, found = random.Random(seed), list(target.seeds), Findings()
    ended = time.monotonic() + seconds
    while time.monotonic() < ended:
        data = target.seeds[0]
        if found.inputs:
            data = target.change(rng.choice(corpus), corpus, rng)
        write_input(place / "input", data)
        forget_peak()
        started = time.process_time()
        way, problem = outcome(target, place / "input")
        found.seconds = max(found.seconds, time.process_time() - started)
        memory = resident()[1]
        found.memory = max(found.memory, memory)
        if memory > max(MEMORY, target.memory) and not problem:
            way, problem = f"memory {way}", f"{memory} MB ({way})"
        found.inputs += 1
        if way not in found.ways:
            found.ways.append(way)
            if target.is_mutated:
                corpus.append(data)
        if problem and way not in found.wrong:
            found.wrong[way] = problem
            if keep is not None:
                keep.mkdir(parents=True, exist_ok=True)
                write_input(keep / f"{name}-{len(found.wrong)}".replace(" ", "-"), data)
    (folder / f"{name}.json").write_text(json.dumps(asdict(found)))


def judged(report: Report, folder: Path, name: str, status: int) -> int:
    """Report the findings of a target; return the peak memory in MB."""
    report.check(status == 0, f"{name}: its process has died with status {status}")
    place = folder / f"{name}.json"
    if not place.exists():
        return 0
    found = Findings(**json.loads(place.read_text()))
    for problem in found.wrong.values():
        report.check(False, f"{name}: {problem}")
    report.figure(
        f"{name}: {found.inputs} inputs that ended in {len(found.ways)} ways, at most {found.memory} MB and "
        f"{found.seconds:.1f} s of CPU for one"
    )
    return found.memory


def traces(folder: Path) -> list[Path]:
    """Return files that only an executed command or an escaping path can have created."""
    allowed = {"input", "input.lock", "new", "out"}
    made = [
        p for p in folder.glob("*/*") if p.name not in allowed and not p.name.startswith("new.")
    ]
    return [
        *made,
        *folder.rglob(f"*{CANARY}*"),
        *folder.rglob("*escaped*"),
        *Path("/").glob("escaped*"),
    ]


def main() -> None:
    known, words = targets(), parser(__doc__, seconds=120)
    words.add_argument("--target", choices=list(known), help="one only")
    words.add_argument("--keep", type=Path, metavar="DIR", help="where failing inputs are written")
    args = words.parse_args()
    seconds, report = chosen(args.seconds, args.quick, 2, 120), Report()
    names = [args.target] if args.target else list(known)
    peak = 0
    with scratch() as folder:
        for name in names:
            share = seconds / len(names)
            work = partial(fuzz, known[name], name, share, args.seed, folder, args.keep)
            _, status = os.waitpid(forked(work), 0)
            peak = max(peak, judged(report, folder, name, status))
        report.check(not traces(folder), f"traces: {traces(folder)}")
    report.figure(f"peak memory of one input: {peak} MB; each within {PATIENCE} s")
    sys.stdout.flush()
    report.end()


if __name__ == "__main__":
    main()
