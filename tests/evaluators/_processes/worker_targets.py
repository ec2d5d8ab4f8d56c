"""Handlers for the tests of the worker; imported in another process."""

import ctypes
import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ENDLESS = ("hang", "ignore_sigterm", "flood")


def misbehaving(settings):
    """Serve requests ``[name, *arguments]``; the settings say how long an endless run may take."""

    def handle(request, report):
        report.stage("compile")
        report.stage("run", settings["limit"] if request[0] in ENDLESS else None)
        report.note(0.5)
        if request[0] == "forge":
            return _forge(report, *request[1:])
        return ACTIONS[request[0]](*request[1:])

    return handle


def _die(name):
    os.kill(os.getpid(), getattr(signal, name))


def _abort():
    os.write(2, b"terminate called\n")
    os.abort()


def _segfault():
    ctypes.string_at(0)


def _raise(message):
    raise ValueError(message)


def _hang():
    while True:
        pass


def _ignore_sigterm():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(60)


def _flood():
    while True:
        os.write(1, b"x" * 65536)


def _child(tag, away):
    """Start a child that outlives the request, with or without its own session."""
    return subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(60)", tag],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=away,
    ).pid


def _daemon(seconds):
    """Start a daemon: in its own session, without environment, and without a parent."""
    command = ["env", "-i", shutil.which("setsid") or "", "-f", "sleep", seconds]
    null = subprocess.DEVNULL
    subprocess.run(command, stdin=null, stdout=null, stderr=null, check=True)


def _file():
    place = tempfile.mkstemp()[1]
    return str(Path(place).parent)


def _file_and_die():
    _file()
    _die("SIGKILL")


def _scribble():
    """Write rubbish into every descriptor, as a wild kernel may."""
    for number in map(int, os.listdir("/proc/self/fd")):
        try:
            if number > 2:
                os.write(number, b"rubbish\n")
        except OSError:
            continue
    time.sleep(60)


def _forge(report, *lines):
    """Write lines into the pipe of replies, with the number of the request for @."""
    for line in lines:
        text = line.replace("@", f'"number": {report.number}, "at": {time.perf_counter()}')
        os.write(report._replies.fileno(), text.encode() + b"\n")
    time.sleep(60)


def _long():
    return "x" * (1 << 20)


def _interrupt():
    """Send a Ctrl-C to the process that waits for the reply, and do not reply."""
    os.kill(os.getppid(), signal.SIGINT)
    time.sleep(60)


def _allocate(size):
    return len(bytearray(size))


ACTIONS = {
    "echo": lambda *values: list(values),
    "pid": os.getpid,
    "cpus": lambda: sorted(os.sched_getaffinity(0)),
    "environment": os.environ.get,
    "print": lambda text: print(text, flush=True),
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
    "file": _file,
    "file_and_die": _file_and_die,
    "scribble": _scribble,
    "not_finite": lambda: math.nan,
    "object": object,
    "allocate": _allocate,
}


def broken(settings):
    raise RuntimeError("there is no such device")


def deadly(settings):
    os.abort()
