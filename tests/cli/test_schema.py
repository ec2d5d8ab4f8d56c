"""One list of keys: the reader, the reference page and the JSON Schema of a run file agree."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from baco_like.cli import main
from baco_like.cli.schema import json_schema, reference
from baco_like.parameters import Integer
from baco_like.parameters.registry import PARAMETER_TYPES
from baco_like.running import run_file as runfile
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


def test_every_setting_of_a_strategy_has_a_key() -> None:
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
