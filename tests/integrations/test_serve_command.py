"""The command itself, in a separate process, with clients in Python and in C++, and what its page says of it."""

import importlib
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import forked
import pytest

import baco_like
from baco_like.exceptions import MissingExtra
from baco_like.strategies import STRATEGIES

HERE = Path(__file__).parent
EXAMPLE = HERE.parents[1] / "examples" / "serve"
SERVE = [sys.executable, "-W", "error", "-m", "baco_like", "serve"]

FIELDS = {
    "application_name": "grid",
    "hypermapper_mode": {"mode": "client-server"},
    "optimization_objectives": ["runtime"],
    "design_of_experiment": {"doe_type": "standard latin hypercube", "number_of_samples": 6},
    "optimization_iterations": 4,
    "feasible_output": {
        "enable_feasible_predictor": True,
        "true_value": "1",
        "false_value": "0",
    },
    "log_file": "grid.log",
    "input_parameters": {
        "x": {"parameter_type": "ordinal", "values": [1, 2, 4, 8, 16, 32]},
        "y": {"parameter_type": "integer", "values": [1, 16]},
    },
}


@pytest.fixture
def scenario(tmp_path):
    path = tmp_path / "grid.json"
    path.write_text(json.dumps(FIELDS))
    return path


def started(*command, cwd):
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [*map(str, command)], cwd=cwd, stdin=pipe, stdout=pipe, stderr=pipe, text=True
    )


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    compiler = shutil.which("g++") or shutil.which("c++")
    if compiler is None:
        pytest.skip("needs a C++ compiler")
    program = tmp_path_factory.mktemp("client") / "client"
    subprocess.run(
        [compiler, "-std=c++17", "-Wall", "-Wextra", HERE / "client.cpp", "-o", program], check=True
    )
    return program


@pytest.mark.parametrize(
    ("failure", "order"), [("-1", "same"), ("2147483647", "mixed"), ("nan", "mixed")]
)
def test_a_client_in_cpp(compiled, scenario, tmp_path, failure, order):
    server = [*SERVE, scenario, "--strategy", "random_search"]
    done = subprocess.run(
        [compiled, failure, order, *server],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "10 evaluations\n"
    names, *rows = (tmp_path / "grid_output_samples.csv").read_text().splitlines()
    assert names == "x,y,runtime,Valid,Timestamp"
    assert len(rows) == 10
    for x, y, runtime, valid, _ in (row.split(",") for row in rows):
        ran = int(x) * int(y) <= 64
        assert valid == str(int(ran))
        expected = str((int(x) - 8) ** 2 + float(y)) if ran else failure
        assert runtime == expected
    assert any(f",{failure},0," in row for row in rows)
    assert (tmp_path / "grid.log").read_text().startswith("ended: 10 evaluations; best ")


def test_the_example(tmp_path):
    command = [sys.executable, "-W", "error", EXAMPLE / "client.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    *_, last = done.stdout.splitlines()
    assert last.startswith("Request 1: best so far ")
    assert len((tmp_path / "tiles_output_samples.csv").read_text().splitlines()) == 16


def test_only_the_protocol_is_on_standard_output(tmp_path):
    code = (
        "import os\n"
        "from baco_like._output import open_protocol_streams\n"
        "with open_protocol_streams() as (incoming, outgoing):\n"
        "    print('noise of Python')\n"
        "    os.system('echo noise of a child')\n"
        "    outgoing.write(incoming.readline())\n"
        "print('afterwards')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        input="Request\r\n",
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "Request\nafterwards\n"
    assert sorted(done.stderr.splitlines()) == ["noise of Python", "noise of a child"]


def test_a_client_that_ends(scenario, tmp_path):
    server = started(*SERVE, scenario, "--strategy", "random_search", cwd=tmp_path)
    lines = [server.stdout.readline() for _ in range(8)]
    assert lines[0] == "Request 6\n"
    rows = "".join(f"{line.strip()},3,1\n" for line in lines[2:6])
    out, err = server.communicate("x,y,runtime,Valid\n" + rows)
    assert server.returncode == 2
    assert out == ""
    assert err.startswith("baco-like: error: the client has closed its end, after 4 of 10")
    assert len(err.splitlines()) == 1
    assert len((tmp_path / "grid_output_samples.csv").read_text().splitlines()) == 5


def test_a_client_that_stops_reading(scenario, tmp_path):
    server = started(*SERVE, scenario, "--strategy", "random_search", cwd=tmp_path)
    lines = [server.stdout.readline() for _ in range(8)]
    server.stdout.close()
    server.stdin.write("x,y,runtime,Valid\n" + "".join(f"{x.strip()},3,1\n" for x in lines[2:]))
    server.stdin.close()
    err = server.stderr.read()
    assert server.wait() == 2
    assert err.startswith("baco-like: error: the client does not read any more, after 6 of 10")
    assert len(err.splitlines()) == 1
    server.stderr.close()


def test_another_folder_needs_permission(tmp_path):
    current, other = tmp_path / "current", tmp_path / "other"
    current.mkdir()
    source = {**FIELDS, "run_directory": str(other), "optimization_iterations": 0}
    (current / "grid.json").write_text(json.dumps(source))
    server = [*SERVE, "grid.json", "--strategy", "random_search"]
    done = subprocess.run(
        [*server, "--allow-dir", "x", "--allow-dir", "../other"],
        cwd=current,
        input="",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr.startswith("baco-like: error: the client has closed its end")
    assert sorted(path.name for path in other.iterdir()) == ["grid.log", "grid_output_samples.csv"]
    assert [path.name for path in current.iterdir()] == ["grid.json"]


def test_a_large_file_to_resume_from_needs_permission(scenario, tmp_path):
    source = {**FIELDS, "resume_optimization": True, "resume_optimization_file": "old.csv"}
    (tmp_path / "grid.json").write_text(json.dumps(source))
    rows = "x,y,runtime,Valid,Timestamp\n" + "\n" * 300_001
    (tmp_path / "old.csv").write_text(rows)
    server = [*SERVE[1:], "grid.json", "--strategy", "random_search"]
    errors = []
    for option in ([], ["--large"]):
        done = forked.run(*server, *option, cwd=tmp_path)  # without input
        errors.append(done.stderr)
    assert "--large on the command line" in errors[0]
    assert "the client has closed its end" in errors[1]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["none.json"], "none.json: No such file"),
        (["grid.json", "--strategy", "bayesain"], "did you mean 'bayesian'"),
        (["wrong.json"], "optimization_objectives"),
    ],
)
def test_errors_are_one_line(scenario, tmp_path, arguments, named):
    wrong = {**FIELDS, "optimization_objectives": []}
    (tmp_path / "wrong.json").write_text(json.dumps(wrong))
    before = sorted(tmp_path.iterdir())
    done = forked.run(*SERVE[1:], *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("baco-like: error: ")
    assert len(done.stderr.splitlines()) == 1
    assert named in done.stderr
    assert sorted(tmp_path.iterdir()) == before


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
