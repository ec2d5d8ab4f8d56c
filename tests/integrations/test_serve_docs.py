"""The statements of the pages on `serve` and on other tools are true."""

import importlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import baco_like
from baco_like.exceptions import MissingExtra
from baco_like.strategies import STRATEGIES

DOCS = Path(__file__).parents[2] / "docs"


def blocks(page, kind):
    return re.findall(rf"```{kind}\n(.*?)```", (DOCS / page).read_text(), re.S)


def test_the_documented_session_and_its_files(tmp_path):
    (scenario,) = blocks("serve.md", "json")
    session, notes, _ = blocks("serve.md", "text")
    *_, code = blocks("serve.md", "python")  # those before it are parts of scripts
    (tmp_path / "scenario.json").write_text(scenario)
    client = "".join(line[3:] + "\n" for line in session.splitlines() if line.startswith("C> "))
    command = [sys.executable, "-m", "baco_like", "serve", "scenario.json"]
    done = subprocess.run(
        command, cwd=tmp_path, input=client, capture_output=True, text=True, check=True
    )
    told = [line[3:] for line in session.splitlines() if line.startswith("S> ")]
    heard = done.stdout.splitlines()
    assert len(heard) == len(told)
    for ours, page in zip(heard, told, strict=True):
        if re.match(r"\d+,", page):  # a machine's arithmetic may choose another configuration
            assert re.fullmatch(r"\d+,\d+,\(\d, \d, \d\)", ours)
        else:
            assert ours == page
    assert heard[2] == told[2]
    first, _ = notes.splitlines()
    assert done.stderr.splitlines()[0] == first
    subprocess.run([sys.executable, "-W", "error", "-c", code], cwd=tmp_path, check=True)
    samples = (tmp_path / "tiles_output_samples.csv").read_bytes()
    assert (tmp_path / "copy.csv").read_bytes() == samples
    assert json.loads(scenario)["application_name"] == "tiles"


@pytest.mark.filterwarnings("ignore")  # Ax and Ray warn when they are imported first here
def test_every_call_of_the_table_exists():
    pytest.importorskip("optuna")  # one of the names needs it
    page = (DOCS / "your_tool_our_call.md").read_text()
    imports, large = blocks("your_tool_our_call.md", "python")
    names = {}
    exec(imports, names)
    for module, name in re.findall(r"from (\S+) import (\w+)", large):
        try:
            names[name] = getattr(importlib.import_module(module), name)
        except MissingExtra:
            names[name] = None
    ours = "\n".join(line.split(" | ")[2] for line in page.splitlines() if line.count(" | ") == 2)
    calls = re.findall(r"([A-Za-z_.]+)\(", " ".join(re.findall(r"`([^`]*)`", ours)))
    known = {
        "fn": None,
        "ProcessPoolExecutor": None,
        "create_study": None,
        "GenerationStrategy": None,
        "TuneConfig": None,
        "opt": baco_like.Optimizer,
    }
    assert len(calls) > 60
    for call in calls:
        name, _, attribute = call.partition(".")
        assert name in names or name in known, call
        assert not attribute or hasattr({**names, **known}[name], attribute), call
    strategies = set(re.findall(r'strategy="([a-z_]+)"', ours))
    assert len(strategies) > 3
    assert strategies <= set(STRATEGIES)
