"""The Python examples of the documentation run when pasted, those of one page together and in order."""

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import forked
import pytest
from jsonschema import Draft7Validator
from pasted import blocks, run

from baco_like.cli.run_file import tomllib
from baco_like.cli.schema import json_schema

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
    "cupy",
    "evaluators",
    "halide",
    "opencl",
    "parallel",
    "ray",
    "recipes",
    "serve",
    "taco",
    "your_tool_our_call",
}
"""Pages whose Python needs a program, file or device of the reader; `examples` has the complete scripts."""

PAGES = sorted(
    str(page.relative_to(DOCS).with_suffix("")) for page in DOCS.rglob("*.md") if blocks(page)
)


SHORTER = {"tutorials/compare_strategies": ("range(5)", "range(2)")}
"""Replacements in the examples of pages that would run long."""


def test_every_page_with_excerpts_exists():
    assert set(PAGES) >= EXCERPTS | set(PACKAGES) | set(SHORTER)


@pytest.mark.parametrize("page", [page for page in PAGES if page not in EXCERPTS])
def test_the_examples_of_a_page_run(page, tmp_path):
    if (package := PACKAGES.get(page)) is not None:
        pytest.importorskip(package)
    done = run(DOCS / f"{page}.md", tmp_path, SHORTER.get(page, ("", "")))
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
def test_the_tutorial_of_compiler_flags_and_the_recipes_run(tmp_path):
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
    assert re.search(r"5 of 5 evaluations.*, 0 pending.*; failures: none", output)
    assert "time: " in shell("./winner/sums", tmp_path).stdout
    recipes = DOCS / "recipes.md"
    for text in re.findall(r"```toml\n(.*?)```", recipes.read_text(), re.S):
        run_file = (tmp_path / "sums.toml").read_text()
        run_file = run_file.replace("repeats = 3 ", "").replace("[confirmation]", "[drift]\n#")
        document = tomllib.loads(run_file)
        for name, table in tomllib.loads(text).items():
            document[name] = {**document.get(name, {}), **table}
        Draft7Validator(json_schema()).validate(document)
    (tmp_path / "sizes.py").write_text("".join(blocks(recipes)))
    numbers = json.loads(shell(f"{sys.executable} sizes.py true", tmp_path).stdout)
    assert list(numbers) == ["mean", "time_1000", "time_2000", "time_4000"]


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


def test_the_plug_ins_of_contributing_run(tmp_path):
    done = run(ROOT / "CONTRIBUTING.md", tmp_path)
    assert done.returncode == 0, done.stderr
