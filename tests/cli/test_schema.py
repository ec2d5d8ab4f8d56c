"""One list of keys: the reader, the reference page and the JSON Schema of a run file agree."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from baco_like.cli import main
from baco_like.cli import run_file as runfile
from baco_like.cli.schema import json_schema, reference
from baco_like.evaluators import registry
from baco_like.exceptions import BacoError
from baco_like.parameters import Integer
from baco_like.parameters.registry import PARAMETER_TYPES
from baco_like.strategies import STRATEGIES, default_settings

jsonschema = pytest.importorskip("jsonschema")

ROOT = Path(__file__).parents[2]
SCHEMA = json_schema()
VALIDATOR = jsonschema.Draft7Validator(SCHEMA)

FILES = [*sorted((ROOT / "examples").glob("*.toml")), *sorted(ROOT.glob("benchmarks/*/*.toml"))]
SNIPPETS = [
    text
    for page in sorted((ROOT / "docs").rglob("*.md"))
    for text in re.findall(r"```toml\n(.*?)```", page.read_text(), re.S)
    if "[budget]" in text and "[evaluator" in text
]


def test_the_schema_is_one() -> None:
    jsonschema.Draft7Validator.check_schema(SCHEMA)


def test_the_reference_page_is_the_generated_one() -> None:
    page = (ROOT / "docs" / "reference" / "run_file.md").read_text()
    assert page == reference(), "run: baco-like schema --reference > docs/reference/run_file.md"
    assert not re.search(r"<[A-Z_]+>", page)


def test_a_users_parameter_type_leaves_the_page_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PARAMETER_TYPES, "mine", Integer)
    assert "mine" not in reference()


def test_the_command_prints_both(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(SCHEMA))
    assert main(["schema", "--reference"]) == 0
    assert capsys.readouterr().out == reference()


@pytest.mark.parametrize("path", FILES, ids=[path.name for path in FILES])
def test_every_run_file_of_the_repository_fits_the_schema(path: Path) -> None:
    VALIDATOR.validate(runfile.tomllib.loads(path.read_text()))


def test_every_run_file_of_the_documentation_fits_the_schema() -> None:
    assert len(SNIPPETS) >= 3
    for text in SNIPPETS:
        VALIDATOR.validate(runfile.tomllib.loads(text))


def test_every_kind_and_every_setting_of_a_strategy_has_keys() -> None:
    assert registry.KEYS.keys() == registry.KINDS.keys()
    branches = SCHEMA["properties"]["optimizer"]["allOf"]
    for name, branch in zip(STRATEGIES, branches, strict=True):
        assert branch["if"]["properties"]["strategy"] == {"const": name}
        assert set(default_settings(name)) <= set(branch["then"]["properties"])


def test_every_key_has_a_meaning() -> None:
    page = reference()
    missing = [
        line for line in page.splitlines() if line.startswith("| `") and line.endswith("|  |")
    ]
    parts = page.split("All other keys are settings of the strategy")
    assert [line for line in missing if line not in parts[1]] == []


GOOD = """
[space.x]
type = "integer"
low = 1
high = 8
[evaluator]
kind = "command"
run = "echo {x}"
measure = "wall"
[objective]
unit = "ms"
[budget]
evaluations = 5
no_improvement = { evaluations = 40, percent = 1 }
[optimizer]
strategy = "portfolio"
window = 50
[confirmation]
[drift]
[[warm_start]]
file = "earlier.csv"
"""

WRONG: list[tuple[tuple[str, ...], Any]] = [
    (("budjet",), {}),
    (("space", "x", "lwo"), 1),
    (("space", "x", "low"), "1"),
    (("space", "x", "type"), "integr"),
    (("space", "x", "elements"), ["a"]),
    (("constraints",), {"knwon": []}),
    (("constraints",), {"known": [3]}),
    (("objective", "unit"), 5),
    (("objective", "direction"), "minimise"),
    (("evaluator", "kind"), "comand"),
    (("evaluator", "warmpu"), 1),
    (("evaluator", "warmup"), -1),
    (("evaluator", "timeout"), 0),
    (("evaluator", "repeats"), "5"),
    (("evaluator", "cpus"), []),
    (("evaluator", "memory"), "2XB"),
    (("evaluator", "slow_ratio"), 1),
    (("evaluator", "dtype"), "float60"),
    (("evaluator", "metrics"), {"size": 3}),
    (("evaluator", "cache"), 3),
    (("evaluator", "compiler"), "cc"),
    (("evaluator", "run"), None),
    (("budget", "evaluations"), 0),
    (("budget", "evaluations"), None),
    (("budget", "target"), "fast"),
    (("budget", "no_improvement", "percent"), 100),
    (("budget", "no_improvement", "evaluatoins"), 4),
    (("optimizer", "noise"), "often"),
    (("optimizer", "seed"), True),
    (("optimizer", "population"), 5),
    (("optimizer", "window"), "wide"),
    (("optimizer", "strategy"), "portfoli"),
    (("confirmation", "evaluations"), 1.5),
    (("confirmation", "top"), 0),
    (("drift", "threshold"), 0),
    (("warm_start",), [{"file": "a.csv", "mode": "dta"}]),
    (("warm_start",), {"mode": "data"}),
    (("flags",), {"onoff": []}),
    (("flags",), {"params": {"n": 3}}),
]


@pytest.mark.parametrize(("place", "value"), WRONG, ids=[f"{'.'.join(p)}={v}" for p, v in WRONG])
def test_a_mistake_fails_in_the_reader_and_in_the_schema(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: tuple[str, ...], value: Any
) -> None:
    document = runfile.tomllib.loads(GOOD)
    VALIDATOR.validate(document)
    inner: Any = document
    for key in place[:-1]:
        inner = inner[key]
    if value is None:
        del inner[place[-1]]
    else:
        inner[place[-1]] = value
    assert not VALIDATOR.is_valid(document)
    monkeypatch.setattr(runfile, "_parse_toml", lambda path: document)
    with pytest.raises((BacoError, ValueError)):
        read_with_strategy(tmp_path / "run.toml")


def read_with_strategy(path: Path) -> None:
    """Read a run file and make its strategy, as ``baco-like tune`` does before it starts."""
    run = runfile.read(path)
    run.search.create()
