"""Every message about a mistake in a run file, and the JSON Schema, stay as they are in the folder ``golden``.

`messages.json` lists mistakes: a file, a part of it, what replaces this part, the message, and whether the schema shows
the mistake in an editor too. A change that is meant to alter messages or the schema writes both files anew:
``python tests/cli/test_golden_run_files.py``.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import pytest

from baco_like.cli.schema import json_schema
from baco_like.exceptions import BacoError
from baco_like.running import run_file

jsonschema = pytest.importorskip("jsonschema")

GOLDEN = Path(__file__).with_name("golden")
MESSAGES = GOLDEN / "messages.json"
SCHEMA = GOLDEN / "schema.json"
CASES = json.loads(MESSAGES.read_text())
VALIDATOR = jsonschema.Draft7Validator(json_schema())


def check(case: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return the case with what the reader and the schema say of it now; the folder gets no other files."""
    text = (GOLDEN / f"{case['file']}.toml").read_text()
    assert case["old"] in text
    path = folder / "run.toml"
    path.write_text(text.replace(case["old"], case["new"], 1))
    shutil.copy(GOLDEN / "table.csv", folder)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a parameter that no command names
        with pytest.raises((BacoError, ValueError)) as caught:
            run_file.read(path).search.create()  # as `baco-like tune` does before it starts
    assert sorted(file.name for file in folder.iterdir()) == ["run.toml", "table.csv"]
    text = str(caught.value).replace(str(folder), "FOLDER")
    text = text.partition(" for this process; it has")[0]
    try:
        is_shown = not VALIDATOR.is_valid(run_file.tomllib.loads(path.read_text()))
    except ValueError:
        is_shown = True  # not TOML
    return {**case, "message": f"{caught.type.__name__}: {text}", "schema": is_shown}


@pytest.mark.parametrize("case", CASES, ids=[f"{c['file']}: {c['new']!r:.60}" for c in CASES])
def test_each_mistake_has_its_message_in_one_line(tmp_path: Path, case: dict[str, Any]) -> None:
    found = check(case, tmp_path)
    assert found == case
    assert "\n" not in found["message"]
    assert len(found["message"]) < 520


def test_the_files_without_mistakes_fit_the_schema() -> None:
    for path in GOLDEN.glob("*.toml"):
        VALIDATOR.validate(run_file.tomllib.loads(path.read_text()))


def test_the_schema_is_the_golden_one() -> None:
    VALIDATOR.check_schema(VALIDATOR.schema)
    assert json.loads(json.dumps(VALIDATOR.schema)) == json.loads(SCHEMA.read_text())


def main() -> None:
    rows = []
    for case in CASES:
        with tempfile.TemporaryDirectory() as folder:
            rows.append(check(case, Path(folder).resolve()))
    MESSAGES.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n")
    SCHEMA.write_text(json.dumps(VALIDATOR.schema, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    sys.exit(main())  # type: ignore[func-returns-value]
