"""The Python examples of the documentation run when pasted, those of one page together and in order."""

import ast
import importlib.util
import inspect
import json
import re
import shlex
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import forked
import pytest
from jsonschema import Draft7Validator
from pasted import blocks, run, write

import baco_like
from baco_like.cli.arguments import build_parser
from baco_like.cli.schema import json_schema
from baco_like.running.run_file import tomllib

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"

PACKAGES = {
    "configspace": "ConfigSpace",
    "gest": "gest_api",
    "kernel_tuner": "kernel_tuner",
    "optuna": "optuna",
    "pyatf": "pyatf",
    "report": "vl_convert",
}
"""The optional package that the examples of a page import."""

EXCERPTS = {
    "ax",
    "evaluators",
    "inside_your_compiler",
    "kernels",
    "ray",
    "serve",
    "your_tool_our_call",
}
"""Pages whose Python needs a program, file or device of the reader; `examples` has the complete scripts.
On other pages, `<!-- excerpt -->` marks a single one."""

PAGES = sorted(
    str(page.relative_to(DOCS).with_suffix("")) for page in DOCS.rglob("*.md") if blocks(page)
)


SHORTER = {
    "explain": [("range(40)", "range(16)")],
    "report": [("MaxEvals(25)", "MaxEvals(12)")],
    "strategies": [("MaxEvals(30)", "MaxEvals(12)"), ("MaxEvals(60)", "MaxEvals(12)")],
    "studies": [
        ("evaluations=12", "evaluations=7"),
        ("seeds=5", "seeds=2"),
        ('Path("figures"))', 'Path("figures"), ["png"])'),
    ],
    "tutorials/from_idea_to_table": [
        ('"listed_tiles", "listed_flags"]', "][:3]"),
        ("seeds=10, evaluations=30", "seeds=2, evaluations=7"),
    ],
}
"""Replacements in the examples of pages that would run long."""


def test_every_page_with_excerpts_exists():
    assert set(PAGES) >= EXCERPTS | set(PACKAGES) | set(SHORTER)


@pytest.mark.parametrize("page", [page for page in PAGES if page not in EXCERPTS])
def test_the_examples_of_a_page_run(page, tmp_path):
    package = PACKAGES.get(page, "baco_like")
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"needs the package {package}")
    if page == "passes" and not (shutil.which("opt-14") or shutil.which("opt")):
        pytest.skip("needs opt of LLVM")
    done = run(DOCS / f"{page}.md", tmp_path, *SHORTER.get(page, ()))
    assert done.returncode == 0, done.stderr


RUN_FILES = [
    (str(page.relative_to(DOCS)), text)
    for page in sorted(DOCS.rglob("*.md"))
    for text in re.findall(r"```toml\n(.*?)```", page.read_text(), re.S)
    if "[budget]" in text and "[evaluator]" in text
    if page.stem != "tune_compiler_flags"  # has a test of its own
]
BLUR = """
#include <stdio.h>
int main(int n, char **words)
{
    int sum = 0;
    for (int i = 0; i < n; i++)
        sum += words[i][0];
    return printf("time: %d.5\\n", TILE) < 0 || sum == 0;
}
"""


def test_complete_run_files_are_found():
    assert {page for page, _ in RUN_FILES} == {
        "flags.md",
        "passes.md",
        "reference/run_file.md",
        "several_objectives.md",
        "tasks.md",
        "tutorials/tune_a_program.md",
    }


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
@pytest.mark.parametrize(("page", "text"), RUN_FILES, ids=[page for page, _ in RUN_FILES])
def test_a_complete_run_file_runs(page, text, tmp_path):
    if page == "passes.md" and not (shutil.which("opt-14") or shutil.which("opt")):
        pytest.skip("needs opt of LLVM")
    (tmp_path / "blur.c").write_text(BLUR)
    kernel = tmp_path / "kernel"
    kernel.write_text("#!/bin/sh\n")
    kernel.chmod(0o755)
    (tmp_path / "run.toml").write_text(text)
    out = tmp_path / "out"
    command = ["-m", "baco_like", "tune", "run.toml", "--budget", "3", "--out", out]
    done = forked.run(*command, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    records = [json.loads(line) for line in (out / "run.jsonl").read_text().splitlines()]
    outcomes = [row for record in records for row in record.get("outcomes", [])]
    assert {row["status"] for row in outcomes} == {"ok"}
    assert json.loads((out / "best.json").read_text())["evaluations"] == 3


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs GCC")
def test_the_tutorial_of_compiler_flags_runs(tmp_path):
    page = (DOCS / "tutorials" / "tune_compiler_flags.md").read_text()
    for language, name in (("c", "sums.c"), ("toml", "sums.toml")):
        (text,) = re.findall(rf"```{language}\n(.*?)```", page, re.S)
        (tmp_path / name).write_text(text)
    small = page.replace("--out", "--budget 5 --out")
    output = ""
    for command in "".join(re.findall(r"```sh\n(.*?)```", small, re.S)).splitlines():
        program, *words = shlex.split(command, comments=True)
        assert program == "baco-like"
        done = forked.run("-m", "baco_like", *words, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        output += done.stdout
    assert re.search(r"5 of 5 evaluations.*; failures: none", output)
    assert "time: " in shell("./winner/sums", tmp_path).stdout


@pytest.mark.skipif(shutil.which("opt-14") is None, reason="needs opt of LLVM")
def test_the_tutorial_of_passes_runs(tmp_path):
    page = (DOCS / "tutorials" / "find_a_pass_pipeline.md").read_text()
    (text,) = re.findall(r"```c\n(.*?)```", page, re.S)
    (tmp_path / "roman.c").write_text(text)
    output = ""
    for command in re.findall(r"```sh\n(.*?)```", page.replace("100 --out", "3 --out"), re.S):
        program, *words = shlex.split(command)
        if program == "sh":
            shell(command, tmp_path)
            continue
        done = forked.run("-m", "baco_like", *words, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        output += done.stdout
    assert re.search(r"3 of 3 evaluations", output)
    assert shell("runs/roman/roman-build/roman", tmp_path).stdout.strip().isdigit()


def test_the_script_for_several_sizes_prints_its_numbers(tmp_path):
    (script,) = re.findall(r"```py\n(.*?)```", (DOCS / "tasks.md").read_text(), re.S)
    (tmp_path / "sizes.py").write_text(script)
    numbers = json.loads(shell(f"{sys.executable} sizes.py true", tmp_path).stdout)
    assert list(numbers) == ["mean", "time_1000", "time_2000", "time_4000"]


def test_every_part_of_a_run_file_completes_a_run_file():
    """Each snippet replaces or adds keys of the run file of the tutorial; the JSON Schema knows all of them."""
    (text,) = re.findall(
        r"```toml\n(.*?)```", (DOCS / "tutorials" / "tune_compiler_flags.md").read_text(), re.S
    )
    validator, wrong = Draft7Validator(json_schema()), []
    for page in [*DOCS.rglob("*.md"), ROOT / "README.md"]:
        for snippet in re.findall(r"```toml\n(.*?)```", page.read_text(), re.S):
            given = tomllib.loads(snippet)
            if page.stem == "plug_ins":  # names that no package here has
                continue
            tables = {
                key: value
                for key, value in given.items()
                if isinstance(value, dict)
                or (isinstance(value, list) and isinstance(value[0], dict))
            }
            tables["evaluator"] = {
                **{key: value for key, value in given.items() if key not in tables},
                **tables.get("evaluator", {}),
            }
            document = tomllib.loads(text)
            for name, table in tables.items():
                replaces = isinstance(table, list) or "kind" in table or name == "passes"
                document[name] = table if replaces else {**document.get(name, {}), **table}
            if "passes" in tables:
                del document["flags"]
            wrong += [
                (page.name, e.json_path, e.message[:80]) for e in validator.iter_errors(document)
            ]
    assert wrong == []


TEXTS = [
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    *sorted(DOCS.rglob("*.md")),
    *sorted((ROOT / "changes").glob("*.md")),
    *sorted((ROOT / "benchmarks").rglob("*.md")),
]


def calls_in(text):
    """Return the calls of names of the package in the code of a Markdown text."""
    for code in re.findall(r"```python\n(.*?)```|`([^`\n]+)`", text, re.S):
        with suppress(SyntaxError):
            yield from (n for n in ast.walk(ast.parse("".join(code))) if isinstance(n, ast.Call))


@pytest.mark.filterwarnings("ignore::SyntaxWarning")
def test_every_call_that_is_shown_has_arguments_that_exist():
    named = {name: getattr(baco_like, name) for name in baco_like.__all__}
    named["Optimizer.load"] = baco_like.Optimizer.load
    methods = {
        name: method
        for name, method in inspect.getmembers(baco_like.Optimizer, inspect.isfunction)
        if not name.startswith("_") and not hasattr(dict, name)
    }
    wrong, found = [], 0
    for page in TEXTS:
        text = page.read_text().replace(r"\|", "|")
        if page.stem == "your_tool_our_call":  # the last column has our calls
            text = re.sub(r"^\|[^|]*\|.*\| (?=.* \|$)", "", text, flags=re.M)
        for call in calls_in(text):
            name = ast.unparse(call.func)
            owner, _, method = name.rpartition(".")
            known = named.get(name)
            if known is None and owner in ("optimizer", "opt", "run", "read", "Optimizer"):
                known = methods.get(method)
            if known is None or ("tune" in name and "ray" in page.name):
                continue
            found += 1
            parameters = inspect.signature(known).parameters
            if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
                continue
            for keyword in call.keywords:
                if keyword.arg is not None and keyword.arg not in parameters:
                    wrong.append((page.name, name, keyword.arg))
    assert wrong == []
    assert found > 300


def shell(script, folder):
    command = ["bash", "-c", script]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def named_paths(text):
    """Return the words in backticks that are paths: `folder/` or `folder/module.py`."""
    words = re.findall(r"`([\w./-]+)`", re.sub(r"```.*?```", "", text, flags=re.S))
    return [word for word in words if word.endswith(("/", ".py", ".md", ".toml"))]


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_every_path_that_is_named_exists(page):
    paths = named_paths((ROOT / page).read_text())
    assert paths
    missing = [
        path
        for path in paths
        if not any((root / path).exists() for root in (ROOT, ROOT / "baco_like"))
    ]
    assert missing == []


@pytest.mark.parametrize(
    "page",
    ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "benchmarks/README.md"],
)
def test_every_link_to_a_file_leads_somewhere(page):
    targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)", (ROOT / page).read_text())
    files = [target for target in targets if "://" not in target]
    assert [file for file in files if not ((ROOT / page).parent / file).exists()] == []


@pytest.mark.parametrize("page", ["claims.md", "reliability.md"])
def test_what_shows_a_claim_exists(page):
    """Each row names a test, a script or a page of results, or a command of the package."""
    text = (DOCS / page).read_text()
    named = re.findall(r"`((?:tests|benchmarks|examples)/[\w./-]+)(?:::(\w+))?`", text)
    scripts = re.findall(r"`(\w+\.py)`", text) if page == "reliability.md" else []
    named += [(f"benchmarks/reliability/{script}", "") for script in scripts]
    wrong = [file for file, _ in named if not (ROOT / file).exists()]
    wrong += [
        f"{file}::{test}"
        for file, test in named
        if test and file not in wrong and f"def {test}(" not in (ROOT / file).read_text()
    ]
    commands = re.findall(r"(?m)^    (\w+)", build_parser().format_help())
    wrong += [name for name in re.findall(r"`baco-like (\w+)", text) if name not in commands]
    if page == "claims.md":
        rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| ")]
        wrong += [claim for claim, shown in rows if shown != "shown by |" and "`" not in shown]
        assert len(rows) > 200
    assert wrong == []
    assert len(named) > 20


def test_the_plug_ins_of_contributing_run(tmp_path):
    done = run(ROOT / "CONTRIBUTING.md", tmp_path)
    assert done.returncode == 0, done.stderr


def test_every_name_of_the_root_is_used_by_an_example(monkeypatch):
    monkeypatch.syspath_prepend(DOCS)
    listed = importlib.import_module("hooks").public_names()
    assert len(listed) > 15
    assert sorted(listed["baco_like"]) == sorted(baco_like.__all__)
    assert [name for name, file in listed["baco_like"].items() if file is None] == []
    assert listed["baco_like"]["Space"] == "examples/own_loop.py"
    assert listed["baco_like.records"]["Proposal"].startswith("examples/")


# ---- The README's examples run when pasted together, in order, in a new interpreter ----


README = Path(__file__).parents[1] / "README.md"


def test_the_readmes_python_runs(tmp_path):
    assert len(blocks(README)) == 2
    command = [sys.executable, "-W", "error", write(README, tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Trial(" in done.stdout
