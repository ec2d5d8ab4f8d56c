"""The clients in C, Rust and JavaScript get the suggestions that a program in Python gets."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from same_suggestions import CLIENTS, DESCRIPTION, suggestions

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
