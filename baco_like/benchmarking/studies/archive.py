"""The files of a study: tables and figures in a folder, and an archive that makes them again and repeats the study.

An archive is a zip file: ``study.json`` (plan, versions, machine), ``evaluations.csv`` (the frame of all evaluations),
tables, figures, ``again.py``, and in ``inputs`` the recorded tables, run files and modules that the study has read. An
archive of somebody else is only read. Nothing in it is run, except by `repeat_study`.
"""

from __future__ import annotations

import csv
import io
import json
import re
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

import baco_like
from baco_like._checks import nesting_depth
from baco_like._output import check_output, replace_file
from baco_like.benchmarking.problems.recorded import RecordedProblem, read_table
from baco_like.benchmarking.problems.run_files import RunFileProblem
from baco_like.benchmarking.score import Baseline
from baco_like.benchmarking.studies import plots, report
from baco_like.benchmarking.studies.runs import (
    Contender,
    PastProblem,
    Problem,
    StrategyRun,
    cpu_of,
    parameters_of,
)
from baco_like.benchmarking.studies.study import StudyResult, find_problems, study
from baco_like.exceptions import StrategyError
from baco_like.journal.header import describe_host, find_versions
from baco_like.records.objective import sign_of

PLAN, DATA, INPUTS = "study.json", "evaluations.csv", "inputs"

_MOST_FILES, _MOST_BYTES, _MOST_DEPTH = 10_000, 2**30, 40
"""Most files of an archive, most bytes of all of them unpacked, and the deepest nesting of its plan."""

_SCRIPT = '''\
"""Make the tables and figures of this study again from evaluations.csv: python again.py FOLDER."""

import sys
from pathlib import Path

from baco_like.benchmarking import studies

folder = Path(sys.argv[1])
folder.mkdir(exist_ok=True)
studies.write_results(studies.read_archive(Path(__file__).parent), folder, ("pdf",))
'''


def write_results(result: StudyResult, folder: Path, formats: Sequence[str] = ("png",)) -> None:
    """Write the tables, the figures and all evaluations of a study.

    Args:
        result: The study.
        folder: Where the files are written.
        formats: Formats of the figures.

    Raises:
        MissingExtra: matplotlib or pandas is not installed; what needs none of them is written.
    """
    figures = result.figures
    replace_file(folder / "table.md", report.to_markdown(figures).encode())
    replace_file(folder / "table.tex", report.to_latex(figures).encode())
    replace_file(folder / "figures.csv", report.to_csv(figures).encode())
    plots.save_figures(result, folder, formats)
    replace_file(folder / DATA, result.to_dataframe().to_csv(index=False).encode())


# Write ----------------------------------------------------------------------------------------------------------------


def write_archive(result: StudyResult, path: str | Path) -> None:
    """Write an archive of a study, with the modules that it has imported from the current folder.

    Args:
        result: The result of `study`.
        path: The zip file.

    Raises:
        MissingExtra: matplotlib or pandas is not installed.
        OSError: The file cannot be written, or an input of the study is gone.
    """
    files, problems = _own_modules(), {}
    for problem in result.problems:
        given, own = _inputs_of(problem)
        files |= own
        problems[problem.name] = {
            "given": given,
            "direction": problem.direction,
            "best_value": problem.best_value,
            "parameters": parameters_of(problem),
            "baseline": None if problem.baseline is None else _describe(problem.baseline),
        }
    plan = {
        "specification": result.plan,
        "seeds": list(dict.fromkeys(run.seed for run in result.runs)),
        "problems": problems,
        "versions": find_versions(),
        "machine": {key: value for key, value in describe_host().items() if key != "name"},
    }
    data = io.BytesIO()
    with (
        tempfile.TemporaryDirectory() as name,
        zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive,
    ):
        write_results(result, Path(name), ("pdf",))
        archive.writestr(PLAN, json.dumps(plan))
        archive.writestr("again.py", _SCRIPT)
        for file in sorted(Path(name).iterdir()):
            archive.write(file, file.name)
        for inner, file in files.items():
            archive.write(file, f"{INPUTS}/{inner}")
    replace_file(Path(path), data.getvalue())


def _describe(baseline: Baseline) -> dict[str, Any]:
    numbers = {k: v for k, v in vars(baseline).items() if isinstance(v, int | float) and v == v}
    return {**numbers, "costs": baseline.costs.tolist()}


def _inputs_of(problem: Any) -> tuple[str | None, dict[str, Path]]:
    """Return the text by which a study finds a problem among the inputs, or None, and the files of the problem."""
    if isinstance(problem, RecordedProblem):
        files = {f"recorded/{name}": path for name, path in problem.source.files.items()}
        return next(iter(files)), files
    if isinstance(problem, RunFileProblem):
        folder, root = problem.file.folder, f"run_files/{problem.name}"
        own = sorted({path.resolve() for path in problem.file.inputs if path.is_file()})
        inside = [path.relative_to(folder) for path in own if path.is_relative_to(folder)]
        files = {f"{root}/{path.as_posix()}": folder / path for path in inside}
        return f"{root}/{problem.file.path.name}", files
    return getattr(problem, "origin", None), {}


def _own_modules() -> dict[str, Path]:
    """Return the files of the modules that this process has imported from the current folder."""
    folder, package = Path.cwd(), Path(baco_like.__file__).parent
    modules = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
    # Some modules have a name without a folder there, such as torch.ops.
    files = [Path(file).resolve() for file in modules if file and re.fullmatch(r"/.*\.py", file)]
    return {
        file.relative_to(folder).as_posix(): file
        for file in files
        if file.is_relative_to(folder)
        and not file.is_relative_to(package)
        and "site-packages" not in file.parts
    }


# Read -----------------------------------------------------------------------------------------------------------------


@contextmanager
def _opened(path: Path) -> Iterator[tuple[Callable[[str], bytes], Sequence[str]]]:
    """Yield a function that reads a file of an archive, or of the folder where it was unpacked, and all names.

    Errors in the block are explained.
    """
    try:
        if path.is_dir():
            files = [file for file in path.rglob("*") if file.is_file()]
            names = [file.relative_to(path).as_posix() for file in files]
            yield (lambda name: (path / name).read_bytes()), names
            return
        with zipfile.ZipFile(path) as archive:
            members = [info for info in archive.infolist() if not info.is_dir()]
            size = sum(info.file_size for info in members)  # zipfile unpacks no more than that
            if len(members) > _MOST_FILES or size > _MOST_BYTES:
                raise ValueError(f"more than {_MOST_FILES} files or {_MOST_BYTES // 2**20} MiB")
            yield archive.read, [info.filename for info in members]
    except StrategyError:
        raise
    except (
        *(OSError, EOFError, LookupError, TypeError, ValueError, AttributeError, RuntimeError),
        *(zipfile.BadZipFile, zlib.error),
    ) as error:
        raise StrategyError(f"{path} is not the archive of a study: {error}") from error


def _read_plan(data: bytes) -> dict[str, Any]:
    text = data.decode()
    if nesting_depth(text) > _MOST_DEPTH:
        raise ValueError(f"{PLAN} is nested more than {_MOST_DEPTH} deep")
    plan: dict[str, Any] = json.loads(text)
    return plan


def read_archive(path: str | Path) -> StudyResult:
    """Return the study in an archive, or in the folder where it was unpacked; nothing in it is run.

    Raises:
        StrategyError: It is not an archive of a study, or is too large.
    """
    with _opened(Path(path)) as (read, _):
        plan = _read_plan(read(PLAN))
        problems = {name: _read_problem(name, own) for name, own in plan["problems"].items()}
        groups: dict[tuple[int, str, str], list[dict[str, str]]] = {}
        for row in csv.DictReader(io.StringIO(read(DATA).decode(), newline="")):
            key = int(row["seed"]), row["problem"], row["strategy"]
            groups.setdefault(key, []).append(row)
        order = list(problems)  # as in the study: by seed, then by problem
        keys = sorted(groups, key=lambda key: (plan["seeds"].index(key[0]), order.index(key[1])))
        runs = [_read_run(groups[key], problems[key[1]]) for key in keys]
        own = plan["specification"]
        budgets = {name: int(each["evaluations"]) for name, each in own["problems"].items()}
        return StudyResult(list(problems.values()), budgets, runs, own)


def _read_problem(name: str, own: Mapping[str, Any]) -> PastProblem:
    numbers, baseline = own["baseline"], None
    if numbers is not None:
        baseline = Baseline(**{**numbers, "costs": np.array(numbers["costs"], np.float64)})
    return PastProblem(name, own["direction"], own["best_value"], own["parameters"], baseline)


def _read_run(rows: Sequence[Mapping[str, str]], problem: PastProblem) -> StrategyRun:
    parts = {"config": "configuration", "repeats": "repeats", "tag": "tag"}
    numbers = {"cpu": "suggestion_seconds", "seconds": "evaluation_seconds"}
    log = []
    for row in rows:
        entry = {name: json.loads(row[column]) for name, column in parts.items()}
        entry |= {name: float(row[column]) for name, column in numbers.items() if row[column]}
        log.append(entry | ({} if row["status"] == "ok" else {"failed": row["status"]}))
    costs, best = (
        sign_of(problem.direction) * np.array([float(row[name] or "nan") for row in rows])
        for name in ("value", "best")
    )
    key = problem.name, rows[0]["strategy"], int(rows[0]["seed"])
    return StrategyRun(*key, costs, cpu_of(log), log=log, best=best)


# Repeat ---------------------------------------------------------------------------------------------------------------


def repeat_study(path: str | Path, folder: Path, processes: int = 1) -> StudyResult:
    """Unpack the inputs of an archive, and make all its evaluations again: this runs the programs in it.

    Args:
        path: The archive.
        folder: Where the inputs are unpacked. The runs are kept there, so that a second call continues.
        processes: Number of parallel processes.

    Raises:
        StrategyError: It is not an archive of a study, or the study has parts that only its script has.
        OSError: An input cannot be written.
    """
    inputs = folder.absolute() / INPUTS
    with _opened(Path(path)) as (read, names):
        plan = _read_plan(read(PLAN))
        own, given = plan["specification"], plan["problems"]
        contenders = [Contender(label, **each) for label, each in own["contenders"].items()]
        parts = {each.label: each.strategy for each in contenders}
        parts |= {name: each["given"] for name, each in given.items()}
        if missing := [name for name, part in parts.items() if not isinstance(part, str)]:
            raise StrategyError(
                f"{path}: {', '.join(missing)} cannot be made again without the script of the study, see {INPUTS}"
            )
        files = {name: read(name) for name in names if name.startswith(f"{INPUTS}/")}
        for name in files:
            if ".." in PurePosixPath(name).parts or set(name) & set("\\:\0"):
                raise ValueError(f"{name!r} is outside the archive")
        budgets = {(each["evaluations"], each["seconds"]) for each in own["problems"].values()}
        (evaluations, seconds), *others = budgets
    for name, data in files.items():
        file = folder.joinpath(*PurePosixPath(name).parts)
        check_output(file)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    sys.path.insert(0, str(inputs))
    try:
        return study(
            contenders,
            [_find_again(inputs, each["given"], each["direction"]) for each in given.values()],
            plan["seeds"],
            None if others or seconds else evaluations,
            draw=own["common"]["draw"],
            path=folder / "runs.jsonl",
            processes=processes,
        )
    finally:
        sys.path.remove(str(inputs))


def _find_again(inputs: Path, given: str, direction: Any) -> Problem:
    file = inputs / given
    if given.startswith("recorded/"):
        return read_table(file, inputs / "recorded", direction, large=True)
    (problem,), _ = find_problems([file if file.suffix == ".toml" else given])
    return problem


def describe_differences(old: StudyResult, new: StudyResult) -> str:
    """Return a Markdown table of how a repeated study differs, for each strategy and problem."""
    key = ["problem", "strategy", "seed", "evaluation"]
    frames = [result.to_dataframe() for result in (old, new)]
    both = frames[0].merge(frames[1], how="outer", on=key, suffixes=("", "_now"))
    both["same_configuration"] = both.configuration == both.configuration_now
    is_equal = (both.value == both.value_now) | (both.value.isna() & both.value_now.isna())
    both["same_value"] = both.same_configuration & is_equal & (both.status == both.status_now)
    rows = []
    for key_of_rows, own in both.groupby(["problem", "strategy"], sort=False):
        problem, label = map(str, key_of_rows)
        then, now = (float(each.figures.row(label, problem)["mean"]) for each in (old, new))
        same = [f"{own[name].sum()} of {len(own)}" for name in ("same_configuration", "same_value")]
        rows.append([label, problem, *same, f"{then:.6g}", f"{now:.6g}", f"{now - then:+.3g}"])
    head = ["strategy", "problem", "same configurations", "same values"]
    return report.markdown_table([*head, "mean then", "mean now", "difference"], rows)
