"""Every fault of a command, and that all its processes and files are removed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path
from typing import Any

import pytest

from baco_like.evaluators._processes import child as child_module
from baco_like.evaluators._processes.child import signal_name
from baco_like.evaluators._processes.process import MAX_BYTES, Finished, run_command

PYTHON = sys.executable

PATIENCE = 60.0
"""Seconds in which a command ends or a killed process is gone: more than any pause of this machine."""


def script(code: str) -> list[str]:
    return [PYTHON, "-I", "-c", code]


def alive(tag: str) -> list[str]:
    """Return the processes, zombies apart, whose command line contains ``tag``."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes()
            state = (entry / "stat").read_text().rsplit(")", 1)[1].split()[0]
        except OSError:
            continue
        if tag.encode() in words and state not in "ZX" and int(entry.name) != os.getpid():
            found.append(entry.name)
    return found


def gone(tag: str) -> bool:
    deadline = time.monotonic() + PATIENCE
    while alive(tag) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not alive(tag)


def run_until_printed(text: str, command: list[str]) -> Finished:
    """Run a command that must be ended, with a limit in which it has printed a text before."""
    for timeout in (0.6, 6.0, PATIENCE):
        finished = run_command(command, timeout=timeout)
        if finished.out == text:
            break
    return finished


@pytest.fixture
def tag() -> str:
    return f"tag-{uuid.uuid4().hex}"


def children_of_ours() -> set[str]:
    child_module.prepare()  # it stays
    return set(Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split())


def test_exit_code_and_both_outputs() -> None:
    finished = run_command(
        script("import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)")
    )
    assert (finished.code, finished.signal, finished.timed_out) == (3, None, False)
    assert (finished.out, finished.err) == ("out\n", "err\n")
    assert not finished.ok
    assert finished.describe() == "exit code 3: err"


@pytest.mark.parametrize("name", ["SIGSEGV", "SIGABRT", "SIGKILL", "SIGFPE"])
def test_signals_are_named(name: str) -> None:
    finished = run_command(script(f"import os, signal; os.kill(os.getpid(), signal.{name})"))
    assert (finished.code, finished.signal, finished.ok) == (None, name, False)
    assert name in finished.describe()


def test_a_real_time_signal_has_a_name_too() -> None:
    assert signal_name(signal.SIGRTMIN + 5) == f"signal {signal.SIGRTMIN + 5}"


def test_environment_and_folder(tmp_path: Path) -> None:
    code = "import os; print(os.environ['BACO_X'], os.getcwd(), 'PATH' in os.environ)"
    finished = run_command(script(code), folder=tmp_path, environment={"BACO_X": "a b"})
    assert finished.out.split() == ["a", "b", str(tmp_path), "True"]


def test_standard_input_is_empty() -> None:
    assert (
        run_command(script("import sys; print(repr(sys.stdin.read()))"), timeout=PATIENCE).out
        == "''\n"
    )


def test_a_missing_program_is_an_os_error() -> None:
    with pytest.raises(FileNotFoundError):
        run_command(["no-such-program-anywhere"])


def test_timeout_kills_grandchildren_that_hold_the_pipes(tag: str) -> None:
    finished = run_command(
        ["sh", "-c", f"{PYTHON} -c 'import time; time.sleep(60)' {tag} & wait"], timeout=0.5
    )
    assert finished.timed_out
    assert gone(tag)


def test_a_child_that_ignores_sigterm_is_killed(tag: str) -> None:
    code = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True)"
        "; time.sleep(60)"
    )
    finished = run_until_printed("ready\n", [*script(code), tag])
    assert finished.timed_out
    assert finished.signal == "SIGKILL"
    assert finished.out == "ready\n"
    assert gone(tag)


def test_a_stopped_child_is_killed(tag: str) -> None:
    finished = run_command(
        [*script("import os, signal; os.kill(os.getpid(), signal.SIGSTOP)"), tag], timeout=0.5
    )
    assert finished.timed_out
    assert gone(tag)


def test_a_child_may_end_while_its_own_child_goes_on(tag: str) -> None:
    inner = f"{PYTHON} -c 'import time; time.sleep(60)' {tag}"
    finished = run_command(["sh", "-c", f"{inner} & echo started"], timeout=PATIENCE)
    assert finished.ok
    assert finished.out == "started\n"
    assert gone(tag)


@pytest.mark.skipif(sys.platform != "linux", reason="strays are found through /proc")
def test_a_child_in_a_session_of_its_own_is_found(tag: str) -> None:
    code = (
        "import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', "
        f"'import time; time.sleep(60)', {tag!r}], start_new_session=True); "
        "print('started', flush=True); time.sleep(60)"
    )
    finished = run_until_printed("started\n", script(code))
    assert finished.out == "started\n"
    assert gone(tag)


needs_setsid = pytest.mark.skipif(
    sys.platform != "linux" or shutil.which("setsid") is None, reason="needs setsid of util-linux"
)


@needs_setsid
@pytest.mark.parametrize("ending", ["exit 3", "sleep 60", "kill -s SEGV $$"])
def test_a_daemon_without_environment_is_found(ending: str) -> None:
    """It has a session of its own, no variables, no open files of ours, and no parent any more."""
    tag = f"6{uuid.uuid4().int}"
    daemon = f"env -i {shutil.which('setsid')} -f sleep {tag} </dev/null >/dev/null 2>&1"
    finished = run_until_printed("started\n", ["sh", "-c", f"{daemon}; echo started; {ending}"])
    assert finished.out == "started\n"
    assert gone(tag)


@needs_setsid
def test_a_daemon_of_something_else_is_not_touched() -> None:
    tag = f"6{uuid.uuid4().int}"
    with subprocess.Popen(["sleep", tag], start_new_session=True) as other:
        run_command(["sh", "-c", "sleep 0.01"])
        assert other.poll() is None
        other.kill()


@pytest.mark.parametrize(("mode", "error"), [(None, FileNotFoundError), (0o644, PermissionError)])
def test_a_program_that_cannot_start_is_an_error(
    tmp_path: Path, mode: int | None, error: type[OSError]
) -> None:
    program = tmp_path / "program"
    if mode is not None:
        program.write_text("#!/bin/sh\n")
        program.chmod(mode)
    for name, folder in ((str(program), None), ("./program", tmp_path)):
        with pytest.raises(error, match="program"):
            run_command([name], folder=folder)


def test_a_flood_is_bounded_and_keeps_both_ends() -> None:
    code = (
        "import sys; print('first'); line = 'x' * 999;\n"
        "for i in range(8000): print(line)\n"
        "print('last')"
    )
    finished = run_command(script(code), timeout=PATIENCE)
    assert finished.ok
    assert finished.out.startswith("first\n")
    assert finished.out.endswith("last\n")
    assert "bytes left out" in finished.out
    assert len(finished.out) < 2 * MAX_BYTES


def test_the_count_of_what_is_left_out_is_exact() -> None:
    finished = run_command(
        script("import sys; sys.stdout.write('y' * 5_000_000)"), timeout=PATIENCE
    )
    kept = finished.out.count("y")
    dropped = int(finished.out.split("[", 1)[1].split(" ", 1)[0])
    # the note itself has a y in "bytes"
    assert kept - 1 + dropped == 5_000_000


def test_an_endless_flood_is_stopped() -> None:
    code = "import sys\nwhile True: sys.stdout.write('x' * 65536)"
    finished = run_command(script(code), timeout=0.5)
    assert finished.timed_out
    assert len(finished.out) < 2 * MAX_BYTES


def test_output_that_is_not_utf8() -> None:
    finished = run_command(script(r"import sys; sys.stdout.buffer.write(b'a\xff\xfeb')"))
    assert finished.out == "a��b"


@pytest.mark.skipif(
    sys.platform != "linux", reason="address space limits are not enforced elsewhere"
)
def test_memory_limit() -> None:
    finished = run_command(
        script("x = bytearray(2_000_000_000); print(len(x))"), memory=500 * 2**20, timeout=PATIENCE
    )
    assert not finished.ok
    assert "MemoryError" in finished.err
    assert (
        run_command(script("print('fits')"), memory=500 * 2**20, timeout=PATIENCE).out == "fits\n"
    )


def test_words_are_not_interpreted_where_limits_are_set() -> None:
    words = ["$HOME", "`id`", "a b", "'", '"', "; exit 9", "*"]
    finished = run_command([*script("import sys; print(sys.argv[1:])"), *words], memory=2**31)
    assert finished.out == f"{words}\n"


def test_no_zombie_of_ours_is_left() -> None:
    before = children_of_ours()
    run_command(["true"])
    run_command(["sleep", "30"], timeout=0.05)
    assert children_of_ours() == before


def test_descriptors_are_closed() -> None:
    run_command(["true"])
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        run_command(["true"])
        run_command(["sleep", "30"], timeout=0.02)
    assert len(os.listdir("/proc/self/fd")) <= before


def test_ctrl_c_kills_the_group_and_is_raised_again(
    tag: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
def test_ctrl_c_during_the_start_kills_the_command(
    moment: str, tag: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = subprocess.Popen

    def interrupted(*args: Any, **settings: Any) -> Any:
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


def test_a_killed_caller_leaves_nothing_running(tag: str) -> None:
    code = (
        "import os; from baco_like.evaluators._processes import child, process\n"
        "send = child._send\n"
        "child._send = lambda line: (send(line), print('guarded', flush=True))\n"
        f"inner = \"{PYTHON} -c 'import time; time.sleep(60)' \" + os.environ['TAG']\n"
        "process.run_command(['sh', '-c', inner + ' & wait'])"
    )
    environment = {**os.environ, "TAG": tag}
    with subprocess.Popen([PYTHON, "-c", code], env=environment, stdout=-1, text=True) as caller:
        assert caller.stdout is not None
        assert caller.stdout.readline() == "guarded\n"
        while not alive(tag):
            time.sleep(0.02)
        os.kill(caller.pid, signal.SIGKILL)
    assert gone(tag)


def test_a_lost_guardian_is_replaced(tag: str) -> None:
    run_command(["true"])
    shell = child_module._shells[os.getpid()]
    shell.kill()
    shell.wait()
    assert run_command(["sh", "-c", "exit 3"]).code == 3
    assert run_command(["sh", "-c", "exit 4"]).code == 4
    assert child_module._shells[os.getpid()].poll() is None


def test_without_pidfd_it_works_the_same(monkeypatch: pytest.MonkeyPatch, tag: str) -> None:
    monkeypatch.delattr(os, "pidfd_open")
    assert run_command(["sh", "-c", "echo hello; exit 4"]).code == 4
    finished = run_command([*script("import time; time.sleep(60)"), tag], timeout=0.2)
    assert finished.timed_out
    assert gone(tag)


def test_many_at_once_from_threads() -> None:
    codes: dict[int, int | None] = {}

    def one(i: int) -> None:
        codes[i] = run_command(["sh", "-c", f"exit {i}"]).code

    threads = [threading.Thread(target=one, args=(i,)) for i in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert codes == {i: i for i in range(12)}
