"""Run a short version of the benchmarks, and say which claims they could not confirm.

    python benchmarks/confirm.py [--data DIR] [--only WORDS] [--tests] [--folder FOLDER]

Each check is a command at a small size, and a rule that its figures must satisfy. The commands run one after the other;
leave the machine alone meanwhile, because some compare times. A claim is confirmed, not confirmed (with the figure), or
not tried because data, a package or a tool is missing. The exit code is 1 if one is not confirmed. Few runs decide
nothing about a difference between two tuners, so these checks ask for its direction only; the pages of results have the
full runs.

DIR is the folder of public data of `quality/README.md`, or BACO_LIKE_DATA. `--only` takes the checks whose claim or
command has one of the words, separated by commas. `--tests` also runs each test that `docs/claims.md` names. FOLDER
gets the outputs and the rows.
"""

import argparse
import json
import math
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parent
ROWS, TABLE = "rows.jsonl", "table.md"
LONGEST = 900
"""Seconds after which a check is ended; the longest took six minutes beside other work."""

Rule = Callable[[str, Path], str | None]
"""Gets what a command has printed or written as a table, and its folder; returns what contradicts the claim."""


@dataclass(frozen=True)
class Check:
    """A claim with its short benchmark.

    Attributes:
        claim: The claim, in one sentence.
        command: Script below this folder and its arguments. ``{data}`` is the folder of public data, ``{out}`` the file
            of the rows, and ``{folder}`` its folder.
        rule: Decides. Whatever the command, it must end with exit code 0.
        needs: Packages and tools without which it is not tried.
    """

    claim: str
    command: str
    rule: Rule = lambda output, folder: None
    needs: Sequence[str] = ()


def cells(output: str, row: str) -> list[float]:
    """Return the numbers of the first row of a Markdown table that begins with a text, which may have several cells.

    Raises:
        ValueError: There is no such line.
    """
    for line in output.splitlines():
        name, found, rest = line.partition(f"| {row} |")
        if found and not name:
            return [float(x) for x in re.findall(r"-?\d+(?:\.\d+)?", rest)]
    raise ValueError(f"the output has no row {row!r}")


def at_most(row: str, column: int, limit: float) -> Rule:
    """Return the rule that a number of a table, such as milliseconds, is at most a limit."""

    def rule(output: str, folder: Path) -> str | None:
        found = cells(output, row)[column]
        return None if found <= limit else f"{row}: {found:g} instead of at most {limit:g}"

    return rule


def read_rows(folder: Path) -> list[dict[str, Any]]:
    """Return the rows of a command.

    Raises:
        ValueError: There is none.
    """
    path = folder / ROWS
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    if not rows:
        raise ValueError("the command has made no run")
    return rows


def is_ahead(own: str, *others: str, of: str = "peer", within: str = "space") -> Rule:
    """Return the rule that the best values of one contender are the lower ones on average over problems.

    The figure of a pair is the geometric mean over problems and seeds of the other's best value over ours. A run
    without a success counts as the worst value that any contender measured on the problem.
    """

    def rule(output: str, folder: Path) -> str | None:
        best: dict[tuple[str, str, int], float] = {}
        worst: dict[str, float] = {}
        for row in read_rows(folder):
            values = [value for value in row["values"] if value is not None]
            problem = row[within]
            best[row[of], problem, row["seed"]] = min(values, default=math.inf)
            worst[problem] = max([worst.get(problem, -math.inf), *values])
        problems = []
        for other in others:
            logs = [
                math.log(min(value, worst[key[1]]) / min(best[(own, *key[1:])], worst[key[1]]))
                for key, value in best.items()
                if key[0] == other
            ]
            if not logs:
                raise ValueError(f"{other} has made no run")
            ratio = math.exp(sum(logs) / len(logs))
            if ratio <= 1.0:
                problems.append(f"{own} over {other}: {ratio:.3f}")
        return "; ".join(problems) or None

    return rule


def is_busy(share: float) -> Rule:
    """Return the rule that simulated workers are busy for this share of the time and no result is lost."""

    def rule(output: str, folder: Path) -> str | None:
        (row,) = read_rows(folder)
        if row["wrong"]:
            return f"the journal is wrong: {row['wrong'][0]}"
        return None if row["busy"] >= share else f"busy {row['busy']:.1%} instead of {share:.0%}"

    return rule


def wins_problems(other: str) -> Rule:
    """Return the rule that the fronts are better than another's on most problems, by the table of comparisons."""

    def rule(output: str, folder: Path) -> str | None:
        _, problems, ahead, *_ = cells(output, other)
        return None if 2 * ahead > problems else f"ahead on {ahead:g} of {problems:g} problems"

    return rule


def no_rate_above(limit: float) -> Rule:
    """Return the rule that no rate of errors in the first tables is above a limit, in percent."""

    def rule(output: str, folder: Path) -> str | None:
        errors = output.partition("## Coverage")[0]
        rates = [float(rate) for rate in re.findall(r"(\d+\.\d+) ?%(?= *\|)", errors)]
        if not rates:
            raise ValueError("the output has no rates")
        return None if max(rates) <= limit else f"a rate of {max(rates):g} % instead of 5 %"

    return rule


RELIABILITY = {
    "kills": "no acknowledged result is lost when a run is killed",
    "cuts": "a journal that is cut at any byte opens and loses at most the cut event",
    "flips": "a changed byte is found, and a repair saves the other events",
    "full_disk": "a full disk is an error that leaves the journal intact",
    "writers": "eight processes share a journal without a loss",
    "members": "optimizers with threads and proposals in store are killed without a loss",
    "orders": "calls in any order agree with a simple model",
    "changed_space": "a changed space is rejected with the difference",
    "exhausted": "every strategy evaluates a whole space once and ends",
    "injection": "no value is run as a shell command",
    "large": "10,000 trials open and continue",
    "service_kills": "kills of a client or its server count each result once",
    "service_messages": "hostile messages to the server get clear errors in bounded memory",
}

COMPILERS = (
    "compilers/run.py --folder {folder} --methods 'auto,random_forest,evolution,random' --programs lz,gemm,hashes "
    "--seeds 3 --evaluations 60"
)

CHECKS = [
    *(Check(claim, f"reliability/{name}.py --quick") for name, claim in RELIABILITY.items()),
    Check("mutated files and messages raise clear errors", "reliability/fuzz.py --seconds 60"),
    Check(
        "a suggestion with 187 parameters and 200 observations takes at most 60 ms",
        "speed/suggest.py --wide --repeats 10",
        at_most("0 %", 4, 60.0),
    ),
    Check(
        "a request over HTTP adds at most 3 ms",
        "speed/service_load.py --trips 200",
        at_most("suggest and observe, auto", 2, 3.0),
    ),
    Check(
        "the overhead of a command besides its run is at most 3 ms",
        "evaluators.py --evaluations 0 --rounds 5",
        at_most("command", 3, 3.0),
    ),
    Check(
        "1,000 workers with evaluations of ten seconds are at least 98 % busy, also if some are killed",
        "scale/cluster.py --workers 1000 --seconds 30 --killed 0.1 --out {out}",
        is_busy(0.98),
    ),
    Check(
        "the tests of a study keep their error rate of 5 %",
        "quality/error_rates.py --repeats 200",
        no_rate_above(
            13.0
        ),  # 5 % plus four standard errors of 200 studies, 100 of them for mean ranks
    ),
    Check(
        "auto finds better values than random search and Optuna's TPE on the spaces made in code",
        "quality/compare.py --spaces synthetic --peers 'auto,random,Optuna TPE' --budget 60 --exactly --seeds 4 "
        "--processes 1 --out {out}",
        is_ahead("auto", "random", "Optuna TPE"),
        ("optuna",),
    ),
    Check(
        "auto finds better values than random search on the recorded and made spaces of the suite",
        "quality/suite.py --peers auto,random --seeds 2 --processes 1 --out {out}",
        is_ahead("auto", "random"),
    ),
    Check(
        "auto finds smaller programs than an evolution, a forest and random flags with the flags of gcc",
        COMPILERS,
        is_ahead("auto", "random_forest", "evolution", "random", of="method", within="program"),
        ("gcc",),
    ),
    Check(
        "auto finds better values than others on recorded GPU kernels",
        "quality/compare.py --data {data} --spaces gpu --peers 'auto,random,Optuna TPE,Kernel Tuner dual annealing' "
        "--budget 60 --exactly --seeds 3 --processes 1 --out {out}",
        is_ahead("auto", "random", "Optuna TPE", "Kernel Tuner dual annealing"),
        ("optuna", "kernel_tuner"),
    ),
    Check(
        "a suggestion after 200 observations of a GPU kernel takes at most 30 ms",
        "speed/suggest.py --data {data} --repeats 6",
        at_most("convolution | ours, auto", 6, 30.0),
    ),
    Check(
        "gemm is counted exactly in milliseconds",
        "speed/spaces.py --data {data} --spaces gemm --packages ours --seconds 25",
        lambda output, folder: None if re.search(r"ours +116928 +0\.0", output) else output[-300:],
    ),
    Check(
        "the preset baco is ahead of BaCO's program on its test problem after 60 evaluations",
        "quality/rs_cot.py --data {data} --seeds 5 --processes 1 --out {out} --table {folder}/table.md",
        at_most("preset baco, 20 first points", 6, -13.72),
    ),
    Check(
        "ehvi finds better fronts than random search",
        "quality/several_objectives.py --data {data} --seeds 2 --budget 60 --methods ehvi,random_search "
        "--processes 1 --out {out} --table {folder}/table.md",
        wins_problems("random_search"),
    ),
]


def missing_part(check: Check, data: Path | None) -> str | None:
    """Return what a check needs and this machine lacks, or None."""
    if "{data}" in check.command and data is None:
        return "needs --data"
    lacks = (name for name in check.needs if find_spec(name) is None and not shutil.which(name))
    name = next(lacks, None)
    return None if name is None else f"needs {name}"


def try_check(check: Check, data: Path | None, folder: Path) -> str | None:
    """Run the command of a check in an empty folder; return what contradicts the claim, or None."""
    folder.mkdir()
    known = {"data": data, "folder": folder, "out": folder / ROWS}
    script, *arguments = (part.format(**known) for part in shlex.split(check.command))
    output = folder / "output.txt"
    with output.open("w") as file:
        try:
            code = subprocess.run(
                [sys.executable, str(HERE / script), *arguments],
                cwd=ROOT,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
                stdout=file,
                stderr=subprocess.STDOUT,
                timeout=LONGEST,
                check=False,
            ).returncode
        except subprocess.TimeoutExpired:
            return f"not finished after {LONGEST} s"
    table = folder / TABLE
    printed = output.read_text() + (table.read_text() if table.exists() else "")
    if code:
        return f"exit code {code}: {(printed.strip().splitlines() or [''])[-1][:200]}"
    try:
        return check.rule(printed, folder)
    except (ValueError, KeyError, IndexError) as error:
        return f"the output cannot be read: {error}"


def named_tests() -> Iterator[str]:
    """Yield the tests that the list of claims names, each once."""
    text = (ROOT / "docs" / "claims.md").read_text()
    yield from dict.fromkeys(re.findall(r"`(tests/[\w/.-]+(?:::\w+)?)`", text))


def run_named_tests() -> int:
    """Run them; return the exit code."""
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "--dist", "worksteal"]
    return subprocess.run([*command, *named_tests()], cwd=ROOT, check=False).returncode


def main() -> None:
    """Run the checks and print a line for each, then the claims that were not confirmed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", type=Path, default=os.environ.get("BACO_LIKE_DATA"))
    parser.add_argument("--only", default="")
    parser.add_argument("--tests", action="store_true")
    parser.add_argument("--folder", type=Path)
    args = parser.parse_args()
    data = None if args.data is None else Path(args.data).resolve()
    folder = Path(args.folder or tempfile.mkdtemp(prefix="baco_like_benchmarks_"))
    folder.mkdir(parents=True, exist_ok=True)
    words = [word for word in args.only.split(",") if word]
    counts = {"confirmed": 0, "not confirmed": 0, "not tried": 0}
    refuted = []
    for number, check in enumerate(CHECKS):
        if words and not any(word in f"{check.claim} {check.command}" for word in words):
            continue
        started, reason, verdict = time.monotonic(), missing_part(check, data), "not tried"
        if reason is None:
            reason = try_check(check, data, folder / str(number))
            verdict = "confirmed" if reason is None else "not confirmed"
        counts[verdict] += 1
        refuted += [f"{check.claim}: {reason}"] if verdict == "not confirmed" else []
        more = f" ({reason})" if reason else ""
        print(f"{time.monotonic() - started:5.0f} s  {verdict}: {check.claim}{more}", flush=True)
    if args.tests and run_named_tests():
        refuted.append("a test that docs/claims.md names has failed")
    print(
        ", ".join(f"{count} {verdict}" for verdict, count in counts.items()),
        f"; outputs in {folder}",
    )
    for line in refuted:
        print(f"NOT CONFIRMED: {line}")
    sys.exit(bool(refuted))


if __name__ == "__main__":
    main()
