"""The TOML file: all settings are read, and every mistake is reported in one line."""

from __future__ import annotations

import importlib
import shutil
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from baco_like import Categorical, LowOutlook, MaxFailures, NoImprovement, Search, Target
from baco_like.exceptions import (
    BacoWarning,
    EvaluatorError,
    RunFileError,
    SpaceError,
)
from baco_like.parameters import Gaussian
from baco_like.parameters.registry import PARAMETER_TYPES
from baco_like.records import Objective
from baco_like.records.trial import Status, Trial
from baco_like.running import run_file as runfile
from baco_like.running.confirming import Confirm
from baco_like.running.measuring import Recheck

GOLDEN = Path(__file__).with_name("golden")
GOOD = (GOLDEN / "command.toml").read_text()

EXAMPLES = Path(__file__).parents[2] / "examples"


def write(folder: Path, text: str) -> Path:
    path = folder / "run.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_all_settings_are_read(tmp_path: Path) -> None:
    run = runfile.read(write(tmp_path, GOOD))
    assert list(run.space.parameters) == ["tile", "eps", "depth", "flags", "order"]
    assert run.space.parameters["tile"].default == 16
    assert run.space.parameters["order"].default == ("j", "i", "k")
    config = {"tile": 8, "eps": 1e-3, "depth": 1, "flags": "-O3", "order": ("i", "k", "j")}
    assert run.space.contains(config)
    assert not run.space.contains({**config, "order": ("k", "i", "j")})
    assert run.aim.first == Objective("time", "ms", "minimize")
    assert (run.budget.evaluations, run.budget.seconds) == (60, 600.0)
    assert (run.search.strategy, run.seed) == ("bayesian", 3)
    assert run.search == Search("bayesian", {"design": "uniform"}, 12)
    assert run.folder == tmp_path.resolve()
    assert run.create_evaluator().capacity == 1
    assert [path.name for path in tmp_path.iterdir()] == ["run.toml"]


def test_all_stopping_rules_are_read(tmp_path: Path) -> None:
    rules = """\
target = 1.5
no_improvement = 40
max_failures = 20
outlook = { evaluations = 30, percent = 0.5 }
"""
    run = runfile.read(write(tmp_path, GOOD.replace("seconds = 600\n", rules)))
    expected = (Target(1.5), MaxFailures(20), NoImprovement(40), LowOutlook(30, 0.005))
    assert run.budget.stop.rules[2:] == expected
    text = GOOD.replace(
        "seconds = 600", "outlook = 25\nno_improvement = { evaluations = 9, percent = 2 }"
    )
    rules = (NoImprovement(9, 0.02), LowOutlook(25, 0.01))
    assert runfile.read(write(tmp_path, text)).budget.stop.rules[2:] == rules


def test_optional_tables_and_keys(tmp_path: Path) -> None:
    text = """\
[space.x]
type = "real"
low = 0
high = 1
[evaluator]
kind = "command"
run = "echo {x}"
measure = "regex"
pattern = ".*"
[budget]
seconds = 1.5
"""
    run = runfile.read(write(tmp_path, text))
    assert run.aim.first == Objective("value", "", "minimize")
    assert (run.budget.evaluations, run.budget.seconds) == (None, 1.5)
    assert (run.search, run.seed) == (Search(), 0)


def test_confirmation(tmp_path: Path) -> None:
    assert runfile.read(write(tmp_path, GOOD)).measuring.confirm is None
    run = runfile.read(write(tmp_path, GOOD + "\n[confirmation]\ntop = 2\n"))
    assert run.measuring.confirm == Confirm(top=2, evaluations=0.1, rounds=None)
    table = "\n[confirmation]\nevaluations = 30\nrounds = 5\nconfidence = 0.9\ntolerance = 0.02\n"
    run = runfile.read(write(tmp_path, GOOD + table))
    assert run.measuring.confirm == Confirm(3, 30, 5, 0.9, 0.02)


def test_drift(tmp_path: Path) -> None:
    assert runfile.read(write(tmp_path, GOOD)).recheck == Recheck(25, 0.05)
    table = "\n[drift]\nevery = 0\nthreshold = 0.1\n"
    assert runfile.read(write(tmp_path, GOOD + table)).recheck == Recheck(0, 0.1)


SPAN = """\
[space.flags]
type = "span"
cores = 4
default = "0-3"
"""
CATEGORICAL = '[space.flags]\ntype = "categorical"\nvalues = ["-O2", "-O3"]\n'


def test_a_registered_parameter_type_can_be_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.setitem(PARAMETER_TYPES, "span", Categorical)  # the one before comes back
    monkeypatch.delitem(sys.modules, "parameter_type", raising=False)
    own = importlib.import_module("parameter_type").Span  # registers the type "span"
    run = runfile.read(write(tmp_path, GOOD.replace(CATEGORICAL, SPAN)))
    assert run.space.parameters["flags"] == own(4, default="0-3")
    for line, wrong, error, message in (
        ("default", "defualt", RunFileError, "did you mean 'default'"),
        ("cores = 4", "core = 4", RunFileError, "did you mean 'cores'"),
        ("cores = 4", 'cores = "four"', RunFileError, "a whole number"),
        ("cores = 4", "", RunFileError, "needs the key 'cores'"),
    ):
        assert line in SPAN
        text = GOOD.replace(CATEGORICAL, SPAN.replace(line, wrong))
        with pytest.raises(error, match=message):
            runfile.read(write(tmp_path, text))


def test_a_prior_of_a_parameter_is_read(tmp_path: Path) -> None:
    text = GOOD.replace('values = ["-O2", "-O3"]', 'values = ["-O2", "-O3"]\nprior = [1, 3]')
    text = text.replace("high = 1e-1", "high = 1e-1\nprior = {gaussian = [1e-3, 1.0]}")
    parameters: Any = runfile.read(write(tmp_path, text)).space.parameters
    assert tuple(parameters["flags"].prior) == (1, 3)
    assert parameters["eps"].prior == Gaussian(1e-3, 1.0)


@pytest.mark.parametrize("table", ["space", "evaluator", "budget"])
def test_a_missing_table_is_named(tmp_path: Path, table: str) -> None:
    parts = GOOD.split("\n\n")
    kept = [part for part in parts if not part.lstrip().startswith(f"[{table}")]
    assert len(kept) == len(parts) - 1
    with pytest.raises(RunFileError, match=rf"the table \[{table}\] is missing"):
        runfile.read(write(tmp_path, "\n\n".join(kept)))


@pytest.mark.parametrize("part", ["a", '"a b"', "'a'", "a ", r'"\""', r'"\\"'])
@pytest.mark.parametrize("form", ["{} = 1", "[{}]", "x = {{ {} = 1 }}"])
def test_keys_with_thousands_of_dots_are_refused(tmp_path: Path, part: str, form: str) -> None:
    path = tmp_path / "run.toml"
    path.write_text(form.format(".".join([part] * 30_000)))
    with pytest.raises(RunFileError, match="a key has more than 16 dots"):
        runfile.read(path)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 50_000,
        "x = " + "[" * 20 + "]" * 20,
        "x = " + "{a=" * 17 + "1" + "}" * 17,
        "x = ['[', " * 17,
        'x = ["""]""", ' * 17,
        "x = [ # ]\n" + "[ # ]\n" * 16,
        "x = " + '[{a="\\"]}", b=' * 9,
    ],
)
def test_brackets_nested_deeply_are_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "run.toml"
    path.write_text(text)
    with pytest.raises(RunFileError, match="brackets are nested more than 16 deep") as caught:
        runfile.read(path)
    assert "not a TOML file" not in str(caught.value)


def test_brackets_in_texts_and_comments_are_not_nested(tmp_path: Path) -> None:
    opening = "[{" * 50
    comment = f"# {opening} isn't \"nested\n"
    pattern = f'pattern = \'{opening} [0-9]\\\'\nrun = """\\"{opening}""""\n'
    path = tmp_path / "run.toml"
    path.write_text(f'{comment}[x]\n{pattern}y = [1, [2, {{a = "{opening}\\\\"}}]]\n' * 1)
    with pytest.raises(RunFileError, match=r"there is no table \[x\]"):
        runfile.read(path)


def test_a_file_above_one_mebibyte_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    with path.open("wb") as file:
        file.truncate(2**40)  # a sparse file of one tebibyte
    with pytest.raises(RunFileError, match="larger than 1 MiB"):
        runfile.read(path)


@pytest.mark.parametrize("text", ["x = [" + "1.5, " * 1000 + "]", "x = '" + "a" * 300_000 + "'"])
def test_many_numbers_or_a_long_text_are_no_deep_key(tmp_path: Path, text: str) -> None:
    path = tmp_path / "run.toml"
    path.write_text(text)
    with pytest.raises(RunFileError, match=r"there is no table \[x\]"):
        runfile.read(path)


def test_files_that_are_not_toml(tmp_path: Path) -> None:
    with pytest.raises(RunFileError, match="No such file"):
        runfile.read(tmp_path / "absent.toml")
    with pytest.raises(RunFileError, match="directory"):
        runfile.read(tmp_path)
    path = tmp_path / "latin.toml"
    path.write_bytes(b'[space]\nx = "\xff"\n')
    with pytest.raises(RunFileError, match="not UTF-8 text"):
        runfile.read(path)
    path.write_text("x = [1")
    with pytest.raises(RunFileError, match="not a TOML file"):
        runfile.read(path)


def test_commands_run_in_the_folder_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "data").write_text("t=5")
    text = GOOD.replace('run = "echo', 'run = "cat data')
    text = text.replace('measure = "wall"', 'pattern = "t=(.*)"').replace(
        "{tile} {eps} {depth} {flags} {order}", ""
    )
    path = write(tmp_path / "sub", text)
    monkeypatch.chdir(tmp_path)
    evaluator = runfile.read(Path("sub") / path.name).create_evaluator()
    monkeypatch.chdir("/")
    evaluator.submit(Trial(0, {"tile": 8}))
    assert evaluator.wait()[0].value == 5.0
    evaluator.close()


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
@pytest.mark.parametrize("name", ["matmul.toml", "command.toml"])
def test_the_examples_are_read(name: str) -> None:
    run = runfile.read(EXAMPLES / name)
    default: Any = run.space.default_config
    assert default is not None
    assert run.space.contains(default)
    assert run.aim.first.unit == "ms"


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_the_command_example_is_correct_for_feasible_configurations() -> None:
    run = runfile.read(EXAMPLES / "command.toml")
    evaluator = run.create_evaluator()
    before = sorted(EXAMPLES.iterdir())
    for i, config in enumerate(run.space.sample(5, seed=3)):
        evaluator.submit(Trial(i, config))
        (outcome,) = evaluator.wait()
        assert outcome.status is not Status.FAILED, outcome.message  # some are clearly slower
        assert 1 <= len(outcome.repeats or outcome.extra["repeats"]) <= 12
    evaluator.close()
    assert sorted(EXAMPLES.iterdir()) == before


def refusal(path: Path) -> str:
    """Return the documented error's text, or nothing where the file is read."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", BacoWarning)  # a parameter that no command names
            runfile.read(path)
    except (RunFileError, SpaceError, EvaluatorError) as error:
        return str(error)
    return ""


CUTS = st.integers(0, len(GOOD))


@given(CUTS, CUTS, st.text(max_size=8))
@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_mutated_files_give_only_documented_errors(
    tmp_path: Path, a: int, b: int, new: str
) -> None:
    text = GOOD[: min(a, b)] + new + GOOD[max(a, b) :]
    path = tmp_path / "run.toml"
    path.write_bytes(text.encode("utf-8", errors="surrogatepass"))
    assert "\n" not in refusal(path)


VALUES = st.recursive(
    st.booleans() | st.integers() | st.floats() | st.text("abi{}'\"\\%", max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("abk", max_size=3), inner, max_size=3)
    ),
    max_leaves=4,
)


def places(table: dict[str, Any], *path: str) -> Iterator[tuple[str, ...]]:
    """Yield the place of each key, also within tables."""
    for key, value in table.items():
        yield (*path, key)
        yield from places(value, *path, key) if isinstance(value, dict) else ()


PLACES = st.sampled_from(list(places(runfile.tomllib.loads(GOOD))))


@given(PLACES, VALUES)
@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_value_anywhere_gives_only_documented_errors(
    tmp_path: Path, place: tuple[str, ...], value: Any
) -> None:
    document = runfile.tomllib.loads(GOOD)
    inner: Any = document
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runfile, "parse_toml", lambda path: document)
        told = refusal(tmp_path / "run.toml")
    assert "\n" not in told
    assert len(told) < 600


def test_racing_with_repeats_as_documented(tmp_path: Path) -> None:
    text = GOOD.replace('strategy = "bayesian"', 'strategy = "racing"\nnoise = "repeat"')
    path = write(tmp_path, text.replace('design = "uniform"\n', "").replace("initial = 12\n", ""))
    assert runfile.read(path).search.noise == "repeat"


FLAGS = (GOLDEN / "flags.toml").read_text()


def test_flags_are_parameters_and_belong_to_the_context(tmp_path):
    run = runfile.read(write(tmp_path, FLAGS))
    names = ["order", "level", "model", "funroll_loops", "n", "m"]
    assert list(run.space.parameters) == names
    assert run.space.default_config == {
        **dict(zip(names, [("i", "j"), "-O2", "", False, "unset", 3], strict=True)),
    }
    assert run.context["[evaluator] flags"]["on_off"] == ["-funroll-loops"]
    alone = FLAGS[: FLAGS.index("[space.order]")].replace(" {order:-}", "")
    assert list(runfile.read(write(tmp_path, alone)).space.parameters) == names[1:]


def test_flags_of_the_kind_c_are_its_own(tmp_path):
    shutil.copytree(EXAMPLES / "kernels", tmp_path / "kernels")
    text = (
        (EXAMPLES / "matmul.toml").read_text().replace('kind = "c"', 'kind = "c"\nflags = ["-g"]')
    )
    table = runfile.read(write(tmp_path, text)).evaluator_table
    assert table.entries["flags"] == ["-g"]


def test_limits_on_outcomes(tmp_path):
    text = GOOD.replace("known = [", 'limits = ["size <= 40000"]\nknown = [')
    text = text.replace("[budget]", "[evaluator.metrics]\nsize = 'size=(.*)'\n[budget]")
    assert runfile.read(write(tmp_path, text)).aim.limits == ("size <= 40000",)
    with pytest.raises(RunFileError, match=r"'sise' is not measured; did you mean 'size'\?"):
        runfile.read(write(tmp_path, text.replace("size <=", "sise <=")))
    named = text.replace('measure = "wall"', "pattern = 'time=(.*) heat=(?P<heat>.*)'")
    assert runfile.read(write(tmp_path, named.replace("size <=", "heat <="))).aim.limits
    free = text.replace('measure = "wall"', 'measure = "json"\nkey = "time"')
    assert runfile.read(write(tmp_path, free.replace("size <=", "sise <="))).aim.limits


def test_limits_on_recorded_metrics(tmp_path):
    text = (EXAMPLES / "replay.toml").read_text() + '[constraints]\nlimits = ["size <= 3"]\n'
    text = text.replace("../benchmarks", str(EXAMPLES.parent / "benchmarks"))
    with pytest.raises(RunFileError, match=r"limits: 'size' is not measured; one of time$"):
        runfile.read(write(tmp_path, text))
    assert runfile.read(write(tmp_path, text.replace("size <=", "time >="))).aim.limits


def test_a_metric_may_be_the_objective(tmp_path):
    text = GOOD.replace("[budget]", "[evaluator.metrics]\ntime = '(.*)'\n[budget]")
    runfile.read(write(tmp_path, text.replace('measure = "wall"', 'measure = "time"')))
