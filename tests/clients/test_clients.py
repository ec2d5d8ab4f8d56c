"""The clients in C, Rust and JavaScript, the toy compiler and the plug-in for LLVM in C++."""

import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from same_suggestions import CLIENTS, DESCRIPTION, suggestions

import baco_like
from baco_like import Optimizer

C_OPTIONS = ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror"]
SANITIZERS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
BUILDS = {
    "c": ["gcc", *C_OPTIONS, *SANITIZERS, "-o", "client", CLIENTS / "c" / "client.c"],
    "rust": ["rustc", "-D", "warnings", "-o", "client", CLIENTS / "rust" / "client.rs"],
    "javascript": None,
}


@pytest.fixture(scope="module", params=BUILDS)
def client(request, tmp_path_factory):
    """Build a client; return its command."""
    build = BUILDS[request.param]
    program = build[0] if build else "node"
    if shutil.which(program) is None:
        pytest.skip(f"needs {program}")
    if build is None:
        return ["node", CLIENTS / "javascript" / "client.mjs"]
    folder = tmp_path_factory.mktemp("client")
    subprocess.run(build, cwd=folder, check=True)
    return [folder / "client"]


def test_a_client_gets_the_suggestions_of_a_program_in_python(client):
    server = [sys.executable, "-m", "baco_like", "serve", "--json", DESCRIPTION]
    done = subprocess.run([*client, *server], capture_output=True, text=True, check=True)
    assert [json.loads(line) for line in done.stdout.splitlines()] == suggestions()


def test_a_client_without_a_server_ends_with_an_error(client):
    done = subprocess.run([*client, "true"], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "the server has ended" in done.stderr


def test_a_client_shows_the_error_of_the_server(client):
    server = [sys.executable, "-I", "-S", Path(__file__).with_name("fake_server.py"), "null"]
    done = subprocess.run([*client, *server], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "no JSON" in done.stderr


# ---- The examples in C++: a toy compiler, and a plug-in for LLVM. In each run, that of the header's page is built ----


SERVER = [sys.executable, "-m", "baco_like", "serve", "--json"]
NO_PASSES = ["-O1", "-Xclang", "-disable-llvm-passes", "-emit-llvm"]
INCLUDE = Path(baco_like.__file__).parent / "service"


def call(*words, **settings):
    return subprocess.run(words, capture_output=True, text=True, check=True, **settings)


@pytest.fixture(scope="module")
def build(tmp_path_factory):
    """Build the examples, without optimization: that would take three times as long."""
    for program in ("cmake", "c++"):
        if shutil.which(program) is None:
            pytest.skip(f"needs {program}")
    out = tmp_path_factory.mktemp("build")
    settings = [
        f"-DBACO_LIKE_INCLUDE={INCLUDE}",
        "-DCMAKE_BUILD_TYPE=Debug",
        "-DCMAKE_CXX_FLAGS=-Werror -g0",
    ]
    call("cmake", "-S", CLIENTS / "cpp", "-B", out, *settings)
    call("cmake", "--build", out)
    return out


@pytest.mark.nightly
def test_the_toy_compiler_tunes_and_continues(build, tmp_path):
    journal = tmp_path / "toy.jsonl"
    for evaluations in (5, 8):
        done = call(build / "toy_compiler", str(evaluations), *SERVER, "--journal", journal)
        assert re.fullmatch(r'\d+\.\d+ ms with \{"tile_i":\d+,.*\}\n', done.stdout)
        trials = Optimizer.load(journal).trials
        assert len(trials) == evaluations
    assert {trial.outcome.failed for trial in trials} <= {None, "compile"}
    for trial in trials:
        too_large = trial["tile_j"] * trial["tile_k"] > 2048
        assert trial.outcome.failed == ("compile" if too_large else None)


def tool(name):
    """Return a program of the LLVM for which the plug-in is built."""
    config = shutil.which("llvm-config") or pytest.skip("needs LLVM")
    path = Path(call(config, "--bindir").stdout.strip()) / name
    return path if path.exists() else pytest.skip(f"needs {name}")


def count_instructions(module):
    text = call(tool("llvm-dis"), module, "-o", "-").stdout
    return len(re.findall(r"^  [%a-z]", text, re.M))


@pytest.mark.nightly
def test_the_plug_in_of_llvm_leaves_fewer_instructions_and_the_same_program(build, tmp_path):
    plug_in = build / "tuned_inline.so"
    if not plug_in.exists():
        pytest.skip("needs the headers of LLVM")
    source, plain, tuned = (tmp_path / name for name in ("calls.bc", "plain.bc", "tuned.bc"))
    call(tool("clang"), *NO_PASSES, "-c", CLIENTS / "cpp" / "calls.c", "-o", source)
    call(tool("opt"), "-passes=default<Oz>", source, "-o", plain)
    search = [f"-load-pass-plugin={plug_in}", "-passes=tuned-inline,default<Oz>"]
    environment = {
        **os.environ,
        "BACO_LIKE_SERVER": " ".join(SERVER),
        "BACO_LIKE_EVALUATIONS": "20",
    }
    done = call(tool("opt"), *search, source, "-o", tuned, env=environment)
    (promised,) = re.findall(r"^tuned-inline: 13 calls, (\d+) instructions$", done.stderr, re.M)
    assert count_instructions(tuned) == int(promised) < count_instructions(plain)
    assert (
        call(tool("lli"), tuned).stdout
        == call(tool("lli"), plain).stdout
        == call(tool("lli"), source).stdout
    )


@pytest.mark.nightly
def test_the_plug_in_without_a_server_changes_nothing(build, tmp_path):
    plug_in = build / "tuned_inline.so"
    if not plug_in.exists():
        pytest.skip("needs the headers of LLVM")
    source = tmp_path / "calls.ll"
    call(tool("clang"), *NO_PASSES, "-S", CLIENTS / "cpp" / "calls.c", "-o", source)
    search = [f"-load-pass-plugin={plug_in}", "-passes=tuned-inline", "-S"]
    environment = {**os.environ, "BACO_LIKE_SERVER": "/no/such/server"}
    done = call(tool("opt"), *search, source, "-o", "-", env=environment)
    assert "tuned-inline: nothing is changed: cannot start or reach" in done.stderr
    without = call(tool("opt"), "-passes=verify", "-S", source, "-o", "-")
    assert done.stdout == without.stdout


SURROUNDINGS = """
#include <cstdio>
[[maybe_unused]] static double measure(int tile) { return tile; }
[[maybe_unused]] static double measure(const baco_like::Trial&) { return 1; }
[[maybe_unused]] static const std::string message, hash, description;
[[maybe_unused]] static const std::vector<std::string> command;
"""


LOOP = """
#include <baco_like.hpp>
#include <iostream>
int main(int count, char** words) {
  auto tuner = baco_like::Tuner::start({words + 1, words + count});
  tuner.open(R"({"space": {"tile": {"type": "integer", "low": 1, "high": 999}}, "objective": {"name": "time"},
                 "constraints": {"limits": ["size <= 50000"]}, "budget": {"evaluations": 20}})");
  for (int i = 0; i < 5; ++i) {
    const auto trial = tuner.suggest();
    OBSERVE
  }
  CALLS
}
"""


def test_the_calls_of_the_page_get_answers(tmp_path):
    if shutil.which("c++") is None:
        pytest.skip("needs a C++ compiler")
    page = (CLIENTS.parent / "docs" / "cpp.md").read_text()
    (observe,) = re.findall(r"tuner.observe\(trial, \{\{.*with repeats\n", page)
    (calls,) = re.findall(r"const auto mine = .*?```", page, re.S)
    code = LOOP.replace("OBSERVE", observe).replace("CALLS", calls.strip("`"))
    (tmp_path / "calls.cpp").write_text(code)
    call("c++", "-std=c++17", f"-I{INCLUDE}", "calls.cpp", "-o", "calls", cwd=tmp_path)
    done = call(tmp_path / "calls", *SERVER, "--journal", tmp_path / "run.jsonl")
    assert re.fullmatch(r'tile: [\d.]+\n\{"tile":\d+\} "enqueued"\n', done.stdout)
    assert done.stderr == ""
    trials = Optimizer.load(tmp_path / "run.jsonl").trials
    assert [trial.outcome.repeats for trial in trials] == [(1.31, 1.29)] * 5 + [(1.31,)]
    assert trials[-1]["tile"] == 8


def test_the_page_of_the_header_runs(tmp_path):
    """Its program runs, and its other code compiles."""
    if shutil.which("c++") is None:
        pytest.skip("needs a C++ compiler")
    page = (CLIENTS.parent / "docs" / "cpp.md").read_text()
    (text,) = re.findall(r"```toml\n(.*?)```", page, re.S)
    (tmp_path / "transpose.toml").write_text(textwrap.dedent(text).replace("= 30", "= 5"))
    program, *others = re.findall(r"```cpp\n(.*?)```", page, re.S)
    functions = [
        f"[[maybe_unused]] static void part_{n}([[maybe_unused]] baco_like::Tuner& tuner,"
        f" [[maybe_unused]] const baco_like::Trial& trial) {{{{\n{code}}}}}\n"
        for n, code in enumerate(others)
    ]
    (tmp_path / "transpose.cpp").write_text(
        "".join([textwrap.dedent(program), SURROUNDINGS, *functions])
    )
    warnings = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror"]
    call(
        "c++",
        "-std=c++17",
        *warnings,
        f"-I{INCLUDE}",
        "transpose.cpp",
        "-o",
        "transpose",
        cwd=tmp_path,
    )
    command = tmp_path / "baco-like"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m baco_like "$@"\n')
    command.chmod(0o755)
    paths = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(CLIENTS.parent)}
    done = call("./transpose", cwd=tmp_path, env={**os.environ, **paths})
    assert re.fullmatch(
        r'[\d.]+ ms with \{"rows":\d+,"columns":\d+,"loops":\[\d,\d\]\}\n', done.stdout
    )
    assert len(Optimizer.load(tmp_path / "run.jsonl").trials) == 5
