"""Every fault of a command, and that all its processes and files are removed."""

import os
import shutil
import signal
import subprocess
import sys
import time
import uuid

import pytest
from process_checks import PATIENCE, alive, children_of_ours, gone, needs_setsid

from baco_like.evaluators._processes import child as child_module
from baco_like.evaluators._processes.child import signal_name
from baco_like.evaluators._processes.process import MAX_BYTES, run_command

PYTHON = sys.executable


def script(code):
    return [PYTHON, "-I", "-c", code]


def run_until_printed(text, command):
    """Run a command that must be ended, with a limit in which it has printed a text before."""
    for timeout in (0.6, 6.0, PATIENCE):
        finished = run_command(command, timeout=timeout)
        if finished.out == text:
            break
    return finished


@pytest.fixture
def tag():
    return f"tag-{uuid.uuid4().hex}"


def test_exit_code_and_both_outputs():
    finished = run_command(
        script("import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)")
    )
    assert (finished.code, finished.signal, finished.timed_out) == (3, None, False)
    assert (finished.out, finished.err) == ("out\n", "err\n")
    assert not finished.ok
    assert finished.describe() == "exit code 3: err"


def test_signals_are_named():
    finished = run_command(script("import os; os.kill(os.getpid(), 11)"))
    assert (finished.code, finished.signal, finished.ok) == (None, "SIGSEGV", False)
    assert "SIGSEGV" in finished.describe()
    assert signal_name(signal.SIGRTMIN + 5) == f"signal {signal.SIGRTMIN + 5}"


def test_environment_and_folder(tmp_path):
    code = "import os; print(os.environ['BACO_X'], os.getcwd(), 'PATH' in os.environ)"
    finished = run_command(script(code), folder=tmp_path, environment={"BACO_X": "a b"})
    assert finished.out.split() == ["a", "b", str(tmp_path), "True"]


def test_standard_input_is_empty():
    assert (
        run_command(script("import sys; print(repr(sys.stdin.read()))"), timeout=PATIENCE).out
        == "''\n"
    )


IDLE = f"{PYTHON} -c 'import time; time.sleep(60)' TAG"
AWAY = (
    "import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)', 'TAG'], "
    "start_new_session=True); print('started', flush=True); time.sleep(60)"
)
DAEMON = f"env -i {shutil.which('setsid')} -f sleep TAG </dev/null >/dev/null 2>&1; echo started"
"""A daemon has a session of its own, no variables, no open files of ours, and no parent any more."""


@pytest.mark.parametrize(
    ("command", "end"),
    [
        (["sh", "-c", f"{IDLE} & echo started; wait"], "SIGTERM"),  # it holds the pipes
        (["sh", "-c", f"trap '' TERM; echo started; {IDLE}; {IDLE}"], "SIGKILL"),
        (["sh", "-c", f"echo started; kill -s STOP $$; {IDLE}"], "SIGKILL"),
        (["sh", "-c", f"{IDLE} & echo started"], 0),
        (script(AWAY), "SIGTERM"),
        *(
            pytest.param(["sh", "-c", f"{DAEMON}; {ending}"], end, marks=needs_setsid)
            for ending, end in (
                ("exit 3", 3),
                ("sleep 60", "SIGTERM"),
                ("kill -s SEGV $$", "SIGSEGV"),
            )
        ),
    ],
)
def test_nothing_that_a_command_has_started_is_left(command, end):
    tag = f"6{uuid.uuid4().int}"  # also a number of seconds
    finished = run_until_printed("started\n", [word.replace("TAG", tag) for word in command])
    assert (finished.out, finished.signal or finished.code) == ("started\n", end)
    assert finished.timed_out == (end in ("SIGTERM", "SIGKILL"))
    assert gone(tag)


@needs_setsid
def test_a_daemon_of_something_else_is_not_touched():
    tag = f"6{uuid.uuid4().int}"
    with subprocess.Popen(["sleep", tag], start_new_session=True) as other:
        run_command(["sh", "-c", "sleep 0.01"])
        assert other.poll() is None
        other.kill()


@pytest.mark.parametrize(("mode", "error"), [(None, FileNotFoundError), (0o644, PermissionError)])
def test_a_program_that_cannot_start_is_an_error(tmp_path, mode, error):
    program = tmp_path / "program"
    if mode is not None:
        program.write_text("#!/bin/sh\n")
        program.chmod(mode)
    for name, folder in ((str(program), None), ("./program", tmp_path)):
        with pytest.raises(error, match="program"):
            run_command([name], folder=folder)


def test_a_flood_is_bounded_and_keeps_both_ends():
    finished = run_command(script("print('>' + 'x' * 5_000_000 + '<')"), timeout=PATIENCE)
    assert (finished.ok, finished.out[0], finished.out[-2]) == (True, ">", "<")
    dropped = int(finished.out.split("[")[1].split(" bytes left out]")[0])
    assert finished.out.count("x") + dropped == 5_000_000
    endless = run_command(
        script("import sys\nwhile True: sys.stdout.write('x' * 65536)"), timeout=0.5
    )
    assert endless.timed_out
    assert max(len(finished.out), len(endless.out)) < 2 * MAX_BYTES


def test_output_that_is_not_utf8():
    finished = run_command(script(r"import sys; sys.stdout.buffer.write(b'a\xff\xfeb')"))
    assert finished.out == "a��b"


@pytest.mark.skipif(
    sys.platform != "linux", reason="address space limits are not enforced elsewhere"
)
def test_memory_limit():
    finished = run_command(
        script("x = bytearray(2_000_000_000); print(len(x))"), memory=500 * 2**20, timeout=PATIENCE
    )
    assert not finished.ok
    assert "MemoryError" in finished.err
    assert (
        run_command(script("print('fits')"), memory=500 * 2**20, timeout=PATIENCE).out == "fits\n"
    )


def test_words_are_not_interpreted_where_limits_are_set():
    words = ["$HOME", "`id`", "a b", "'", '"', "; exit 9", "*"]
    finished = run_command([*script("import sys; print(sys.argv[1:])"), *words], memory=2**31)
    assert finished.out == f"{words}\n"


def test_no_zombie_of_ours_is_left():
    before = children_of_ours()
    run_command(["true"])
    run_command(["sleep", "30"], timeout=0.05)
    assert children_of_ours() == before


def test_descriptors_are_closed():
    run_command(["true"])
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        run_command(["true"])
        run_command(["sleep", "30"], timeout=0.02)
    assert len(os.listdir("/proc/self/fd")) <= before


def test_ctrl_c_kills_the_group_and_is_raised_again(tag, tmp_path, monkeypatch):
    send = child_module._send
    monkeypatch.setattr(child_module, "_send", lambda line: (send(line), (tmp_path / "on").touch()))
    inner = f"{PYTHON} -c 'import time; time.sleep(60)' {tag}"
    interrupt = "until [ -e on ]; do sleep 0.01; done; kill -s INT $PPID"
    before = children_of_ours()
    with pytest.raises(KeyboardInterrupt):
        run_command(["sh", "-c", f"{inner} & {interrupt}; wait"], timeout=PATIENCE, folder=tmp_path)
    assert gone(tag)
    assert children_of_ours() == before


@pytest.mark.parametrize("moment", ["before", "after"])
def test_ctrl_c_during_the_start_kills_the_command(moment, tag, monkeypatch):
    start = subprocess.Popen

    def interrupted(*args, **settings):
        if moment == "before":
            signal.raise_signal(signal.SIGINT)
        child = start(*args, **settings)
        if moment == "after":
            signal.raise_signal(signal.SIGINT)
        return child

    run_command(["true"])  # the guardian starts before
    before = children_of_ours()
    monkeypatch.setattr(subprocess, "Popen", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_command([*script("import time; time.sleep(60)"), tag])
    assert gone(tag)
    assert children_of_ours() == before
    with pytest.raises(KeyboardInterrupt):  # the handler is back
        signal.raise_signal(signal.SIGINT)


def test_a_killed_caller_leaves_nothing_running(tag):
    code = (
        "import os; from baco_like.evaluators._processes import child, process\n"
        "send = child._send\n"
        "child._send = lambda line: (send(line), print('guarded', flush=True))\n"
        f"inner = \"{PYTHON} -c 'import time; time.sleep(60)' \" + os.environ['TAG']\n"
        "process.run_command(['sh', '-c', inner + ' & wait'])"
    )
    environment = {**os.environ, "TAG": tag}
    with subprocess.Popen([PYTHON, "-c", code], env=environment, stdout=-1, text=True) as caller:
        assert caller.stdout.readline() == "guarded\n"
        while not alive(tag):
            time.sleep(0.02)
        os.kill(caller.pid, signal.SIGKILL)
    assert gone(tag)


def test_a_lost_guardian_is_replaced(tag):
    run_command(["true"])
    shell = child_module._shells[os.getpid()]
    shell.kill()
    shell.wait()
    assert run_command(["sh", "-c", "exit 3"]).code == 3
    assert run_command(["sh", "-c", "exit 4"]).code == 4
    assert child_module._shells[os.getpid()].poll() is None


def test_without_pidfd_it_works_the_same(monkeypatch, tag):
    monkeypatch.delattr(os, "pidfd_open")
    assert run_command(["sh", "-c", "echo hello; exit 4"]).code == 4
    finished = run_command([*script("import time; time.sleep(60)"), tag], timeout=0.2)
    assert finished.timed_out
    assert gone(tag)
