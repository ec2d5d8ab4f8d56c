"""Every message about a mistake in a run file, and the JSON Schema, stay as they are in the folder ``golden``.

`messages.json` lists mistakes: a file, a part of it, what replaces this part, and the message. A change that is meant to
alter messages or the schema writes both files anew: ``python tests/cli/test_golden_run_files.py``.
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

from baco_like.cli import run_file
from baco_like.cli.schema import json_schema
from baco_like.exceptions import BacoError, EvaluatorError, RunFileError, SpaceError

GOLDEN = Path(__file__).with_name("golden")
MESSAGES = GOLDEN / "messages.json"
SCHEMA = GOLDEN / "schema.json"
CASES = json.loads(MESSAGES.read_text())


def message(case: dict[str, str], folder: Path) -> str:
    """Return the class and the text of the error; nothing but the run file is in the folder afterwards."""
    text = (GOLDEN / f"{case['file']}.toml").read_text()
    assert case["old"] in text
    path = folder / "run.toml"
    path.write_text(text.replace(case["old"], case["new"], 1))
    shutil.copy(GOLDEN / "table.csv", folder)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a parameter that no command names
            run_file.read(path).search.create()  # as `baco-like tune` does before it starts
    except (RunFileError, SpaceError, EvaluatorError, ValueError) as error:
        assert sorted(file.name for file in folder.iterdir()) == ["run.toml", "table.csv"]
        kind = type(error).__name__ if isinstance(error, BacoError) else "ValueError"
        text = str(error).replace(str(folder), "FOLDER")
        return f"{kind}: {text.partition(' for this process; it has')[0]}"
    return "none"


@pytest.mark.parametrize("case", CASES, ids=[f"{c['file']}: {c['new']!r:.60}" for c in CASES])
def test_each_mistake_has_its_message_in_one_line(tmp_path: Path, case: dict[str, str]) -> None:
    found = message(case, tmp_path)
    assert found == case["message"]
    assert "\n" not in found
    assert len(found) < 520


def test_the_schema_is_the_golden_one() -> None:
    assert json.loads(json.dumps(json_schema())) == json.loads(SCHEMA.read_text())


def main() -> None:
    rows: list[Any] = []
    for case in CASES:
        with tempfile.TemporaryDirectory() as folder:
            rows.append({**case, "message": message(case, Path(folder).resolve())})
    MESSAGES.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n")
    SCHEMA.write_text(json.dumps(json_schema(), indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    sys.exit(main())
