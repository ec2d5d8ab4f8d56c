"""The TOML file: all settings are read, and every mistake is reported in one line."""

from __future__ import annotations

import importlib
import shutil
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from baco_like import Categorical, LowOutlook, MaxFailures, NoImprovement, Search, SoftLimit, Target
from baco_like.cli import run_file as runfile
from baco_like.exceptions import (
    BacoError,
    BacoWarning,
    EvaluatorError,
    RunFileError,
    SpaceError,
)
from baco_like.parameters import Gaussian
from baco_like.parameters.registry import PARAMETER_TYPES
from baco_like.records import Objective
from baco_like.records.trial import Status, Trial
from baco_like.running.confirming import Confirm
from baco_like.running.measuring import Recheck
from baco_like.strategies import default_settings

GOOD = """\
[space.tile]
type = "ordinal"
values = [8, 16, 32, 64]
log = true
default = 16
[space.eps]
type = "real"
low = 1e-6
high = 1e-1
log = true
[space.depth]
type = "integer"
low = 1
high = 8
default = 2
[space.flags]
type = "categorical"
values = ["-O2", "-O3"]
[space.order]
type = "permutation"
elements = ["i", "j", "k"]
metric = "kendall"
default = ["j", "i", "k"]

[constraints]
known = ["64 % tile == 0", "pos(order, 'k') > pos(order, 'i')"]

[objective]
name = "time"
unit = "ms"
direction = "minimize"

[evaluator]
kind = "command"
run = "echo {tile} {eps} {depth} {flags} {order}"
measure = "wall"

[budget]
evaluations = 60
seconds = 600

[optimizer]
strategy = "bayesian"
seed = 3
initial = 12
design = "uniform"
"""

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
    assert (run.evaluations, run.seconds) == (60, 600.0)
    assert (run.search.strategy, run.seed) == ("bayesian", 3)
    given = {"design": "uniform", "initial": 12}
    assert run.search.settings == {**default_settings("bayesian"), **given}
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
    assert run.rules == expected
    text = GOOD.replace(
        "seconds = 600", "outlook = 25\nno_improvement = { evaluations = 9, percent = 2 }"
    )
    rules = (NoImprovement(9, 0.02), LowOutlook(25, 0.01))
    assert runfile.read(write(tmp_path, text)).rules == rules


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('target = "fast"', r"\[budget\] target = 'fast'"),
        ("no_improvement = 0", r"\[budget\] no_improvement = 0"),
        ("max_failures = 1.5", r"\[budget\] max_failures = 1.5"),
        ("outlook = { percent = 1 }", r"evaluations"),
        ("outlook = { evaluations = 5, percent = 0 }", r"percent = 0.* above 0"),
        ("outlook = { evaluations = 5, percent = 100 }", r"percent = 100"),
        ("outlook = { evaluation = 5 }", r"no key 'evaluation'; did you mean 'evaluations'"),
    ],
)
def test_wrong_stopping_rules_are_refused(tmp_path: Path, line: str, message: str) -> None:
    with pytest.raises(RunFileError, match=message):
        runfile.read(write(tmp_path, GOOD.replace("seconds = 600", line)))


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
    assert (run.evaluations, run.seconds) == (None, 1.5)
    assert (run.search, run.seed) == (Search(settings=default_settings("auto")), 0)


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
    with pytest.raises(RunFileError, match="threshold = 0"):
        runfile.read(write(tmp_path, GOOD + "\n[drift]\nthreshold = 0\n"))


SUBSET = """\
[space.flags]
type = "subset"
elements = ["fuse", "prefetch", "unroll", "vectorize"]
default = "none"
"""
CATEGORICAL = '[space.flags]\ntype = "categorical"\nvalues = ["-O2", "-O3"]\n'


def test_a_registered_parameter_type_can_be_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.setitem(PARAMETER_TYPES, "subset", Categorical)  # the one before comes back
    monkeypatch.delitem(sys.modules, "parameter_type", raising=False)
    flags = importlib.import_module("parameter_type").FLAGS  # registers the type "subset"
    run = runfile.read(write(tmp_path, GOOD.replace(CATEGORICAL, SUBSET)))
    assert run.space.parameters["flags"] == flags
    for line, wrong, error, message in (
        ("default", "defualt", RunFileError, "did you mean 'default'"),
        ('elements = ["fuse", ', 'element = ["fuse", ', RunFileError, "did you mean 'elements'"),
        ('["fuse", "prefetch", "unroll", "vectorize"]', "3", SpaceError, r"\[space.flags\] .*int"),
        (
            'elements = ["fuse", "prefetch", "unroll", "vectorize"]',
            "",
            RunFileError,
            "needs the key 'elements'",
        ),
    ):
        assert line in SUBSET
        text = GOOD.replace(CATEGORICAL, SUBSET.replace(line, wrong))
        with pytest.raises(error, match=message):
            runfile.read(write(tmp_path, text))


def test_a_prior_of_a_parameter_is_read(tmp_path: Path) -> None:
    text = GOOD.replace('values = ["-O2", "-O3"]', 'values = ["-O2", "-O3"]\nprior = [1, 3]')
    text = text.replace("high = 1e-1", "high = 1e-1\nprior = {gaussian = [1e-3, 1.0]}")
    parameters: Any = runfile.read(write(tmp_path, text)).space.parameters
    assert tuple(parameters["flags"].prior) == (1, 3)
    assert parameters["eps"].prior == Gaussian(1e-3, 1.0)
    with pytest.raises(SpaceError, match=r"\[space.eps\].*prior"):
        runfile.read(write(tmp_path, text.replace("gaussian", "normal")))


MISTAKES: list[tuple[str, str, type[BacoError], str]] = [
    ("[budget]", "[budjet]", RunFileError, r"no table \[budjet\]; did you mean 'budget'"),
    ("[evaluator]", "[[evaluator]]", RunFileError, r"^evaluator = .*expected a table"),
    ("[objective]", "[[objective]]\nunit = 'ms'\n[[objective]]", RunFileError, "several"),
    ('kind = "command"', 'kind = "comand"', RunFileError, "did you mean 'command'"),
    ('kind = "command"', "", RunFileError, "needs the key 'kind'"),
    ("evaluations = 60", "evaluation = 60", RunFileError, "did you mean 'evaluations'"),
    ("evaluations = 60", "evaluations = 0", RunFileError, "evaluations = 0"),
    ("evaluations = 60", "evaluations = 6.5", RunFileError, "a whole number"),
    ("seconds = 600", "seconds = -1", RunFileError, "seconds"),
    ("seed = 3", "seed = -3", RunFileError, "seed = -3"),
    ("seed = 3", "seed = true", RunFileError, "seed = True"),
    ("initial = 12", "initial = 0", RunFileError, "initial"),
    ('strategy = "bayesian"', "strategy = 5", RunFileError, "strategy = 5"),
    ('direction = "minimize"', 'direction = "minimise"', RunFileError, "did you mean 'minimize'"),
    ('unit = "ms"', "unit = 5", RunFileError, "unit = 5"),
    ('unit = "ms"', 'unit = "GB"', RunFileError, "wall"),
    ('type = "ordinal"', 'type = "ordinl"', RunFileError, r"\[space.tile\] type.*'ordinal'"),
    ('type = "ordinal"', "", RunFileError, r"\[space.tile\] needs the key 'type'"),
    ("values = [8, 16, 32, 64]", "", RunFileError, r"\[space.tile\] needs the key 'values'"),
    ("values = [8, 16, 32, 64]", "values = []", SpaceError, r"tile"),
    ("values = [8, 16, 32, 64]", "values = [8, 8]", SpaceError, r"tile.*8"),
    ("values = [8, 16, 32, 64]", "values = 8", RunFileError, "an array"),
    ("default = 16", "default = 17", SpaceError, "tile.*17"),
    ("default = 16", "defualt = 16", RunFileError, "did you mean 'default'"),
    ("low = 1e-6", "", RunFileError, r"\[space.eps\] needs the key 'low'"),
    ("low = 1e-6", "low = -1e-6", SpaceError, "eps"),
    ("low = 1e-6", "low = nan", RunFileError, "low"),
    ("high = 8", "high = 8.0", RunFileError, r"\[space.depth\] high = 8.0"),
    ("high = 8", "high = 0", SpaceError, "depth"),
    ('metric = "kendall"', 'metric = "kendal"', SpaceError, "order.*kendal"),
    (
        'elements = ["i", "j", "k"]',
        'values = ["i", "j", "k"]',
        RunFileError,
        "no key 'values'; one of type, elements",
    ),
    ("64 % tile", "64 % tyle", SpaceError, "tyle"),
    ("64 % tile == 0", "64 % tile == 1", SpaceError, "satisfied by no configuration"),
    ("64 % tile == 0", "__import__('os')", SpaceError, "unknown function"),
    ("known = [", "knwon = [", RunFileError, "did you mean 'known'"),
    ("known = [", "known = [3, ", RunFileError, "an array of texts"),
    ("{tile}", "{tyle}", RunFileError, "did you mean 'tile'"),
    ('run = "echo', 'run = "no-such-program', EvaluatorError, "no-such-program"),
    ("[optimizer]", "[confirmation]\ntop = 0\n[optimizer]", RunFileError, "top = 0"),
    ("[optimizer]", "[confirmation]\nbest = 2\n[optimizer]", RunFileError, "one of top, rounds"),
    (
        "[optimizer]",
        "[confirmation]\nevaluations = 1.5\n[optimizer]",
        RunFileError,
        "a share below 1",
    ),
    ("[optimizer]", "[confirmation]\nconfidence = 1.0\n[optimizer]", RunFileError, "below 1"),
    (
        'direction = "minimize"\n\n[evaluator]',
        'direction = "maximize"\n\n[evaluator]\nslow_ratio = 3',
        RunFileError,
        r"slow_ratio = 3: expected direction = .minimize",
    ),
    (
        'direction = "minimize"\n\n[evaluator]',
        'direction = "maximize"\n\n[evaluator]\nrepeats = 3\nfirst_repeats = 2',
        RunFileError,
        r"first_repeats = 2: expected direction = .minimize",
    ),
    ("evaluations = 60", "evaluations = 60 60", RunFileError, "not a TOML file.*line"),
    ("[space.eps]", "[space.tile]", RunFileError, "not a TOML file"),
    ("[space.eps]", "[space]\ntype = 3\n[space.eps]", RunFileError, "a table"),
]


@pytest.mark.parametrize(("old", "new", "error", "message"), MISTAKES)
def test_every_mistake_is_one_line(
    tmp_path: Path, old: str, new: str, error: type[BacoError], message: str
) -> None:
    assert old in GOOD
    path = write(tmp_path, GOOD.replace(old, new, 1))
    with pytest.raises(error, match=message) as caught:
        runfile.read(path)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500
    assert [file.name for file in tmp_path.iterdir()] == ["run.toml"]


@pytest.mark.parametrize("table", ["space", "evaluator", "budget"])
def test_a_missing_table_is_named(tmp_path: Path, table: str) -> None:
    parts = GOOD.split("\n\n")
    kept = [part for part in parts if not part.lstrip().startswith(f"[{table}")]
    assert len(kept) == len(parts) - 1
    with pytest.raises(RunFileError, match=rf"the table \[{table}\] is missing"):
        runfile.read(write(tmp_path, "\n\n".join(kept)))


def test_a_missing_compiler_is_reported(tmp_path: Path) -> None:
    text = GOOD.replace('run = "echo', 'build = "no-such-cc x.c"\nrun = "echo')
    with pytest.raises(
        EvaluatorError, match=r"\[evaluator\] build: the program 'no-such-cc' is not"
    ):
        runfile.read(write(tmp_path, text))


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
PLACES = st.sampled_from(
    [
        ("space", "tile"),
        ("space", "tile", "values"),
        ("space", "tile", "default"),
        ("space", "tile", "log"),
        ("space", "eps", "low"),
        ("space", "depth", "high"),
        ("space", "order", "elements"),
        ("space", "order", "default"),
        ("space", "order", "metric"),
        ("space", "flags", "values"),
        ("constraints", "known"),
        ("constraints",),
        ("objective", "name"),
        ("objective", "unit"),
        ("evaluator", "run"),
        ("evaluator", "timeout"),
        ("evaluator", "memory"),
        ("evaluator", "kind"),
        ("budget", "evaluations"),
        ("optimizer", "seed"),
        ("optimizer",),
    ]
)


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
        patch.setattr(runfile, "_parse_toml", lambda path: document)
        told = refusal(tmp_path / "run.toml")
    assert "\n" not in told
    assert len(told) < 600


def test_racing_with_repeats_as_documented(tmp_path: Path) -> None:
    text = GOOD.replace('strategy = "bayesian"', 'strategy = "racing"\nnoise = "repeat"')
    path = write(tmp_path, text.replace('design = "uniform"\n', "").replace("initial = 12\n", ""))
    assert runfile.read(path).search.noise == "repeat"
    path.write_text(path.read_text().replace('"repeat"', '"often"'))
    with pytest.raises(RunFileError, match=r"\[optimizer\] noise = 'often'; one of none, repeat"):
        runfile.read(path)


FLAGS = """
[flags]
compiler = ""
level = ["-O2", "-O3"]
on_off = ["-funroll-loops"]
params = { n = [4, 8], m = { low = 1, high = 9, default = 3 } }
groups = { model = ["", "-fa -fb"] }
[evaluator]
kind = "command"
run = "echo {flags} {order:-}"
measure = "wall"
[objective]
unit = "ms"
[budget]
evaluations = 3
[space.order]
type = "permutation"
elements = ["i", "j"]
default = ["i", "j"]
"""


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


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("{flags} ", "", r"\[flags\]: no command has the placeholder \{flags\}"),
        ("[space.order]", "[space.n]", r"\[space.n\]: \[flags\] has this parameter too"),
        ('["-funroll-loops"]', '["-fx", "-fno-x"]', r"\[flags\] -fx and -fno-x are the same"),
        ('kind = "command"', 'kind = "function"', r"\[flags\] belongs to \[evaluator\] kind"),
        ('compiler = ""', 'compiler = "no-such"', "compiler = 'no-such' cannot be asked"),
        ('measure = "wall"', 'measure = "wall"\nflags = 1', "write a table"),
        ("on_off", "onoff", "did you mean 'on_off'"),
    ],
)
def test_wrong_flags_are_errors(tmp_path, old, new, message):
    with pytest.raises(BacoError, match=message):
        runfile.read(write(tmp_path, FLAGS.replace(old, new)))


def test_flags_of_the_kind_c_are_its_own(tmp_path):
    shutil.copytree(EXAMPLES / "kernels", tmp_path / "kernels")
    text = (
        (EXAMPLES / "matmul.toml").read_text().replace('kind = "c"', 'kind = "c"\nflags = ["-g"]')
    )
    table = runfile.read(write(tmp_path, text)).evaluator_table
    assert table.entries["flags"] == ["-g"]


def test_limits_on_outcomes(tmp_path):
    text = GOOD.replace("known = [", 'limits = ["size <= 40000"]\nknown = [')
    with pytest.raises(RunFileError, match=r"limits: 'size' is not measured; one of time; add it"):
        runfile.read(write(tmp_path, text))
    text = text.replace("[budget]", "[evaluator.metrics]\nsize = 'size=(.*)'\n[budget]")
    assert runfile.read(write(tmp_path, text)).aim.limits == ("size <= 40000",)
    with pytest.raises(RunFileError, match=r"'sise' is not measured; did you mean 'size'\?"):
        runfile.read(write(tmp_path, text.replace("size <=", "sise <=")))
    named = text.replace('measure = "wall"', "pattern = 'time=(.*) heat=(?P<heat>.*)'")
    assert runfile.read(write(tmp_path, named.replace("size <=", "heat <="))).aim.limits
    free = text.replace('measure = "wall"', 'measure = "json"\nkey = "time"')
    assert runfile.read(write(tmp_path, free.replace("size <=", "sise <="))).aim.limits
    with pytest.raises(SpaceError, match=r"\[constraints\] limits: .*'size <'"):
        runfile.read(write(tmp_path, text.replace("<= 40000", "<")))


def test_soft_limits(tmp_path):
    soft = '[constraints.soft_limits]\n"size <= 40000" = 8\n'
    text = GOOD.replace("[evaluator]", f"{soft}[evaluator]", 1)
    with pytest.raises(RunFileError, match=r"limits: 'size' is not measured"):
        runfile.read(write(tmp_path, text))
    free = text.replace("size <= 40000", "time <= 2")
    assert runfile.read(write(tmp_path, free)).aim.limits == (SoftLimit("time <= 2", 8.0),)
    with pytest.raises(RunFileError, match="soft_limits"):
        runfile.read(write(tmp_path, free.replace('2" = 8', '2" = 0')))
    with pytest.raises(SpaceError, match=r"\[constraints\] soft_limits: .*one inequality"):
        runfile.read(write(tmp_path, free.replace("time <= 2", "time != 2")))


def test_limits_on_recorded_metrics(tmp_path):
    text = (EXAMPLES / "replay.toml").read_text() + '[constraints]\nlimits = ["size <= 3"]\n'
    text = text.replace("../benchmarks", str(EXAMPLES.parent / "benchmarks"))
    with pytest.raises(RunFileError, match=r"limits: 'size' is not measured; one of time$"):
        runfile.read(write(tmp_path, text))
    assert runfile.read(write(tmp_path, text.replace("size <=", "time >="))).aim.limits


@pytest.mark.parametrize(("name", "owner"), [("time", "the objective"), ("tile", "a parameter")])
def test_a_metric_with_the_name_of_something_else(tmp_path, name, owner):
    text = GOOD.replace("[budget]", f"[evaluator.metrics]\n{name} = '(.*)'\n[budget]")
    with pytest.raises(RunFileError, match=f"the metric '{name}' has the name of {owner}"):
        runfile.read(write(tmp_path, text))
    if name == "time":  # the metric may be the objective
        runfile.read(write(tmp_path, text.replace('measure = "wall"', 'measure = "time"')))
