"""Handlers for the tests of the worker; imported in another process."""

from __future__ import annotations

import ctypes
import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from baco_like.evaluators._processes.worker_main import Report

ENDLESS = ("hang", "ignore_sigterm", "flood")


def misbehaving(settings: Any) -> Callable[[Any, Report], Any]:
    """Serve requests ``[name, *arguments]``; the settings say how long an endless run may take."""

    def handle(request: Any, report: Report) -> Any:
        report.stage("compile")
        report.stage("run", settings["limit"] if request[0] in ENDLESS else None)
        report.note(0.5)
        if request[0] == "forge":
            return _forge(report, *request[1:])
        return ACTIONS[request[0]](*request[1:])

    return handle


def _die(name: str) -> None:
    os.kill(os.getpid(), getattr(signal, name))


def _abort() -> None:
    os.write(2, b"terminate called\n")
    os.abort()


def _segfault() -> None:
    ctypes.string_at(0)


def _raise(message: str) -> None:
    raise ValueError(message)


def _hang() -> None:
    while True:
        pass


def _ignore_sigterm() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(60)


def _flood() -> None:
    while True:
        os.write(1, b"x" * 65536)


def _child(tag: str, away: bool) -> int:
    """Start a child that outlives the request, with or without its own session."""
    return subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(60)", tag],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=away,
    ).pid


def _daemon(seconds: str) -> None:
    """Start a daemon: in its own session, without environment, and without a parent."""
    command = ["env", "-i", shutil.which("setsid") or "", "-f", "sleep", seconds]
    null = subprocess.DEVNULL
    subprocess.run(command, stdin=null, stdout=null, stderr=null, check=True)


def _daemon_and_die(seconds: str) -> None:
    _daemon(seconds)
    _segfault()


def _orphan(tag: str, away: bool) -> None:
    _child(tag, away)
    _segfault()


def _file() -> str:
    place = tempfile.mkstemp()[1]
    return str(Path(place).parent)


def _file_and_die() -> None:
    _file()
    _die("SIGKILL")


def _scribble() -> None:
    """Write rubbish into every descriptor, as a wild kernel may."""
    for number in range(3, 64):
        try:
            os.write(number, b"rubbish\n")
        except OSError:
            continue
    time.sleep(60)


def _forge(report: Report, *lines: str) -> None:
    """Write lines into the pipe of replies, with the number of the request for @."""
    for line in lines:
        text = line.replace("@", f'"number": {report._number}, "at": {time.perf_counter()}')
        os.write(report._replies.fileno(), text.encode() + b"\n")
    time.sleep(60)


def _long() -> str:
    return "x" * (1 << 20)


def _interrupt() -> None:
    """Send a Ctrl-C to the process that waits for the reply, and do not reply."""
    os.kill(os.getppid(), signal.SIGINT)
    time.sleep(60)


def _allocate(size: int) -> int:
    return len(bytearray(size))


ACTIONS: dict[str, Callable[..., Any]] = {
    "echo": lambda *values: list(values),
    "pid": os.getpid,
    "cpus": lambda: sorted(os.sched_getaffinity(0)),
    "environment": os.environ.get,
    "print": lambda text: print(text, flush=True),
    "folder": os.getcwd,
    "long": _long,
    "die": _die,
    "interrupt": _interrupt,
    "abort": _abort,
    "segfault": _segfault,
    "exit": sys.exit,
    "raise": _raise,
    "hang": _hang,
    "ignore_sigterm": _ignore_sigterm,
    "flood": _flood,
    "child": _child,
    "daemon": _daemon,
    "daemon_and_die": _daemon_and_die,
    "orphan": _orphan,
    "file": _file,
    "file_and_die": _file_and_die,
    "scribble": _scribble,
    "not_finite": lambda: math.nan,
    "object": object,
    "allocate": _allocate,
}


def broken(settings: Any) -> None:
    raise RuntimeError("there is no such device")


def deadly(settings: Any) -> None:
    os.abort()
