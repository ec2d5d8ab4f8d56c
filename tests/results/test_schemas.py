"""Files that we write, by the schemas and the programs of those who defined the formats."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from baco_like.records.trial import FAILURE_WORDS, Outcome
from baco_like.results import Recording, read, write

kernel_tuner = pytest.importorskip("kernel_tuner")
jsonschema = pytest.importorskip("jsonschema")

SECONDS = {"compile": 0.5, "run": 0.25, "check": 0.125}
OUTCOMES = (
    Outcome.success(0, (2.0, 4.0), metrics={"energy": 5.0}, extra={"seconds": SECONDS}),
    Outcome.success(1, (1.0,), extra={"seconds": SECONDS, "note": [1, {"a": None}]}),
    Outcome.censored(2, 10.0, message="stopped"),
    Outcome.failure(3, "out of memory", "8 GiB\nwanted"),
    *(Outcome.failure(4 + i, word, "what it said") for i, word in enumerate(FAILURE_WORDS)),
)
FOUND = Recording(
    ("block_size_x", "kind"),
    tuple((2**i, "float2") for i in range(len(OUTCOMES))),
    OUTCOMES,
    "time",
    "ms",
    "minimize",
)


def schema(package: str, path: str) -> Any:
    return json.loads(resources.files(package).joinpath(path).read_text())


@pytest.fixture
def t4(tmp_path: Path) -> Any:
    write(FOUND, tmp_path / "t4.json", "t4")
    return json.loads((tmp_path / "t4.json").read_text())


@pytest.mark.parametrize("name", ["results", "metadata"])
def test_t4_by_kernel_tuner_s_schemas(t4: Any, name: str) -> None:
    rules = schema("kernel_tuner", f"schema/T4/1.0.0/{name}-schema.json")
    jsonschema.validate(t4, rules)
    del t4["results"][0]["invalidity"]
    t4["metadata"]["hardware"] = 3
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(t4, rules)


def test_t4_by_the_schema_of_the_methodology(t4: Any) -> None:
    pytest.importorskip("autotuning_methodology")
    jsonschema.validate(t4, schema("autotuning_methodology", "schemas/T4.json"))


def simulated(path: Path, **options: Any) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    results: tuple[list[dict[str, Any]], dict[str, Any]] = kernel_tuner.tune_kernel(
        "unknown",
        "",
        "unknown",
        [],
        {name: list(values) for name, values in FOUND.domains.items()},
        cache=str(path),
        simulation_mode=True,
        quiet=True,
        **options,
    )
    return results


def test_kernel_tuner_simulates_from_a_cache_of_ours(tmp_path: Path) -> None:
    path = tmp_path / "cache.json"
    write(FOUND, path, "kernel_tuner")
    limit = {"time_limit": 1e6, "fraction": 1}  # it wants the times of all stages then
    results, _ = simulated(path, strategy="random_sample", strategy_options=limit)
    ran = {
        result["block_size_x"]: result["time"] for result in results if "__error__" not in result
    }
    failed = {
        result["block_size_x"]: str(result["__error__"])
        for result in results
        if "__error__" in result
    }
    assert ran == {1: 3.0, 2: 1.0}
    assert failed == {
        **dict.fromkeys((4, 8, 32, 64, 128), "RuntimeFailedConfig"),
        16: "CompilationFailedConfig",
        256: "InvalidConfig",
    }


def test_t4_as_kernel_tuner_writes_it(tmp_path: Path) -> None:
    path = tmp_path / "cache.json"
    write(FOUND, path, "kernel_tuner")
    results, _ = simulated(path)
    files = pytest.importorskip("kernel_tuner.file_utils")
    files.store_output_file(str(tmp_path / "t4.json"), results, FOUND.domains)
    found = read(tmp_path / "t4.json")
    assert (found.names, found.objective, found.unit) == (FOUND.names, "time", "ms")
    assert [one.value for one in found.outcomes][:4] == [3.0, 1.0, None, None]
    assert found.outcomes[0].repeats == (2.0, 4.0)
    assert found.outcomes[0].metrics["energy"] == 5.0
    assert found.outcomes[4].failed == "compile"


def test_kernel_tuner_goes_on_with_a_cache_of_ours(tmp_path: Path) -> None:
    path = tmp_path / "cache.json"
    write(FOUND, path, "kernel_tuner")
    util = pytest.importorskip("kernel_tuner.util")
    known = util.read_cache(str(path), open_cache=True)["cache"]
    row = {"block_size_x": 1024, "kind": "float2", "time": 0.5, "times": [0.5]}
    util.store_cache("1024,float2", row, str(path), known)
    found = read(path)
    assert found.rows == (*FOUND.rows, (1024, "float2"))
    assert found.outcomes[: len(FOUND)] == FOUND.outcomes
    assert found.outcomes[-1].value == 0.5
