"""Parts that other distributions offer as entry points."""

import contextlib
import json
import shutil
import subprocess
import sys
import textwrap
from importlib import metadata
from pathlib import Path

import forked
import pytest

from baco_like import BacoWarning, MaxEvals, Optimizer, PluginError, Search, Space, SpaceError, tune
from baco_like.acquisitions import registry as acquisitions
from baco_like.cli import main
from baco_like.cli.schema import json_schema
from baco_like.evaluators import registry as evaluators
from baco_like.exceptions import RunFileError
from baco_like.parameters import registry as parameters
from baco_like.parameters.registry import parameter_from_dict
from baco_like.running import run_file
from baco_like.strategies import create_strategy, default_settings
from baco_like.strategies import registry as strategies
from baco_like.surrogates import registry as surrogates

EXAMPLE = Path(__file__).parents[1] / "examples" / "plug_in"
SPACE = Space({"tile": [4, 8, 16, 32], "unroll": [1, 2, 4, 8]})
REGISTRIES = [
    each.REGISTRY for each in (strategies, surrogates, acquisitions, evaluators, parameters)
]


def forget():
    for registry in REGISTRIES:
        registry.__dict__.pop("plugins", None)


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Return a function that installs a distribution for the test: its entry points, and its module."""

    def add(name, entry_points, module=""):
        folder = tmp_path / name
        info = folder / f"{name}-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(textwrap.dedent(entry_points))
        (folder / f"{name}.py").write_text(textwrap.dedent(module))
        monkeypatch.syspath_prepend(folder)
        monkeypatch.delitem(sys.modules, name, raising=False)
        forget()

    yield add
    forget()


@pytest.fixture
def nearest(install):
    """The example package."""
    text = (EXAMPLE / "pyproject.toml").read_text()
    points = run_file.tomllib.loads(text)["project"]["entry-points"]
    lines = [
        f"[{group}]\n{name} = {value}\n"
        for group, own in points.items()
        for name, value in own.items()
    ]
    install("baco_nearest", "".join(lines), (EXAMPLE / "baco_nearest.py").read_text())


def cost(trial):
    return 100 / trial["tile"] + trial["unroll"]


def test_parts_of_another_package_are_used_by_name(nearest):
    assert default_settings("neighbours") == {"random_share": 0.1}
    result = tune(
        cost,
        SPACE,
        strategy=Search("neighbours", {"random_share": 0.2}),
        stop=MaxEvals(6),
        progress=False,
    )
    assert any((trial.tag or {}).get("move") == "neighbour" for trial in result.optimizer.trials)
    settings = {"surrogate": "nearest", "acquisition": "bound", "initial": 3}
    result = tune(
        cost, SPACE, strategy=Search("bayesian", settings), stop=MaxEvals(6), progress=False
    )
    assert result.optimizer.trials[-1].tag["phase"] == "model"
    result = tune(
        cost,
        SPACE,
        strategy=Search(settings={"surrogate": "nearest", "initial": 3}),
        stop=MaxEvals(7),
        progress=False,
    )
    assert result.optimizer.trials[-1].tag["phase"] == "model"


def test_a_run_resumes_with_the_plug_in(nearest, tmp_path):
    path = tmp_path / "run.jsonl"
    runs = [Optimizer(SPACE, strategy="neighbours", storage=storage) for storage in (path, None)]
    for optimizer in runs:
        for _ in range(3):
            trial = optimizer.suggest()
            optimizer.observe(trial, cost(trial))
    header = json.loads(path.read_text().partition("\n")[0])
    assert header["versions"]["baco_nearest"] == "1.0"
    assert Optimizer.load(path).suggest() == runs[1].suggest()


def test_the_command_line_knows_plug_ins(nearest, capsys, tmp_path):
    assert main(["strategies"]) == 0
    shown = capsys.readouterr().out
    assert "neighbours  " in shown
    assert "(plug-in of baco_nearest 1.0)  [random_share=0.1]" in shown
    assert (
        "surrogate: gp, gpytorch, forest, effects, nearest (plug-in of baco_nearest 1.0)" in shown
    )
    assert "kind: c, command" in shown
    schema = json_schema()["properties"]
    assert "random_share" in schema["optimizer"]["properties"]
    assert schema["evaluator"]["properties"]["gflops"]["description"].startswith("Peak of the proc")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("size = 512", "", r"\[evaluator\] needs the key 'size'"),
        ("size = 512", 'size = "512"', r"\[evaluator\] size = '512': expected a whole number"),
        (
            "size = 512",
            "size = 512\nsise = 1",
            r"\[evaluator\] has no key 'sise'; did you mean 'size'",
        ),
        (
            '"roofline"',
            '"rooflin"',
            r"\[evaluator\] kind = 'rooflin' is unknown; did you mean 'roofline'",
        ),
        ("size = 512", 'size = 512\nslots = ["hip:0"]', "an argument 'environment'"),
    ],
)
def test_the_table_of_an_evaluator_is_checked(nearest, tmp_path, old, new, message):
    file = tmp_path / "run.toml"
    file.write_text((EXAMPLE / "run.toml").read_text().replace(old, new))
    with pytest.raises(RunFileError, match=message):
        run_file.read(file)


def test_the_example_package_builds_and_its_run_file_runs(tmp_path):
    folder = tmp_path / "plug_in"
    shutil.copytree(EXAMPLE, folder)
    # The metadata that pip writes into an environment.
    code = "from setuptools import build_meta as b; b.prepare_metadata_for_build_wheel('.')"
    subprocess.run([sys.executable, "-c", code], cwd=folder, check=True, capture_output=True)
    done = forked.run("-m", "baco_like", "tune", "run.toml", "--out", "out", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert '"surrogate":"nearest"' in (folder / "out" / "run.jsonl").read_text()
    study = ["compare", "branin", "--strategies", "random_search,neighbours"]
    done = forked.run(
        *("-m", "baco_like", *study, "--repeats", "2", "--budget", "4", "--jobs", "1"), cwd=folder
    )
    assert done.returncode == 0, done.stderr
    assert "neighbours" in done.stdout


def test_unknown_names_list_plug_ins(nearest):
    with pytest.raises(
        ValueError, match=r"strategy 'zzz' is unknown; choose one of auto.*neighbours"
    ):
        create_strategy("zzz")
    with pytest.raises(ValueError, match="did you mean 'nearest'"):
        surrogates.create_surrogate("nearst", None)
    with pytest.raises(ValueError, match="choose one of ei, poi, lcb, bound"):
        acquisitions.create_acquisition("zzz")


def test_our_own_name_wins_with_a_warning(install):
    install(
        "clash", "[baco_like.strategies]\nrandom_search = clash:Missing\nother = clash:Missing\n"
    )
    with pytest.warns(
        BacoWarning, match=r"'random_search' is the one of baco-like; .* in clash 1\.0"
    ) as caught:
        strategy = create_strategy("random_search")
    assert [warning.filename for warning in caught] == ["clash"]
    assert type(strategy).__module__.startswith("baco_like.")
    assert "random_search" not in strategies.REGISTRY.plugins


@pytest.mark.filterwarnings("default::baco_like.BacoWarning")
def test_the_command_line_shows_a_warning_of_its_arguments_in_one_line(install, tmp_path, capsys):
    install("clash", "[baco_like.strategies]\nrandom_search = clash:Missing\n")
    arguments = ["compare", "tuor_8", "--strategies", "random_search", "--out"]
    assert main([*arguments, str(tmp_path / "out")]) == 2
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("baco-like: warning: strategy 'random_search' is the one of baco-like")
    assert second.endswith("did you mean 'tour_8'? Your own is written module:function")


def test_a_broken_plug_in_is_an_error_only_when_asked_for(install, capsys):
    install(
        "broken",
        "[baco_like.strategies]\nbroken = broken:Strategy\n",
        "import module_that_is_missing",
    )
    create_strategy("bayesian")
    message = (
        r"strategy 'broken', the plug-in 'broken:Strategy' \(baco_like.strategies\) of broken 1\.0, cannot be "
        "imported: ModuleNotFoundError: No module named 'module_that_is_missing'"
    )
    with pytest.raises(PluginError, match=message):
        Optimizer(SPACE, strategy="broken")
    assert main(["strategies"]) == 0
    assert "cannot be imported: ModuleNotFoundError" in capsys.readouterr().out
    assert "broken" not in str(json_schema()["properties"]["optimizer"])


def test_what_a_plug_in_makes_is_checked(install):
    install(
        "naughty",
        """
        [baco_like.strategies]
        number = naughty:NUMBER
        returns_none = naughty:returns_none
        wants_more = naughty:wants_more
        gone = naughty:gone
        [baco_like.surrogates]
        returns_none = naughty:returns_none
        [baco_like.acquisitions]
        returns_none = naughty:returns_none
        """,
        """
        NUMBER = 3
        def returns_none(): pass
        def wants_more(share: float): pass
        """,
    )
    with pytest.raises(PluginError, match=r"'number'.* is 3, not a class or a function"):
        create_strategy("number")
    with pytest.raises(PluginError, match=r"'returns_none' of naughty 1\.0 .* has no method init"):
        create_strategy("returns_none")
    with pytest.raises(ValueError, match="'wants_more' needs a value of its setting 'share'"):
        create_strategy("wants_more")
    with pytest.raises(ValueError, match="share = 'much'; it takes float"):
        create_strategy("wants_more", {"share": "much"})
    with pytest.raises(PluginError, match="AttributeError"):
        create_strategy("gone")
    with pytest.raises(PluginError, match="has no method fit"):
        surrogates.create_surrogate("returns_none", None)
    with pytest.raises(PluginError, match="has no method bind"):
        acquisitions.create_acquisition("returns_none")


def test_two_packages_with_one_name(install):
    install("first", "[baco_like.strategies]\nsame = first:A\n")
    install("second", "[baco_like.strategies]\nsame = second:A\n")
    with pytest.raises(PluginError, match=r"of second 1\.0 and first 1\.0, is offered twice"):
        create_strategy("same")


def test_a_parameter_type_of_a_package(install, monkeypatch):
    install(
        "powers",
        "[baco_like.parameters]\npower = powers:Power\n",
        """
        from dataclasses import dataclass
        from baco_like.parameters import Ordinal
        def Power(high: int):
            return Ordinal([2**n for n in range(high + 1)])
        """,
    )
    monkeypatch.setattr(parameters, "PARAMETER_TYPES", {**parameters.PARAMETER_TYPES})
    assert parameter_from_dict({"type": "power", "high": 3}).values == (1, 2, 4, 8)
    with pytest.raises(SpaceError, match=r"type 'powr' is unknown; known: real.*power"):
        parameter_from_dict({"type": "powr"})


def test_entry_points_are_read_late(monkeypatch):
    def refuse(**_):
        raise AssertionError("the entry points were read")

    monkeypatch.setattr(metadata, "entry_points", refuse)
    forget()
    optimizer = Optimizer(SPACE)
    optimizer.observe(optimizer.suggest(), 1.0)
    with contextlib.suppress(AssertionError):
        create_strategy("unknown")
        pytest.fail("the entry points were not read")
