"""Functions that tests evaluate in other processes."""

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

from baco_like import Infeasible


def plain(trial):
    """Fail for 3; otherwise the value is the parameter."""
    if trial["x"] == 3:
        raise Infeasible("too large", failed="compile")
    return float(trial["x"])


def metrics(trial):
    return {"time": [1.0, 2.0, 3.0], "order": len(trial["order"]), "pid": os.getpid()}


def mistaken(trial):
    raise TypeError("a mistake")


def not_a_number(trial):
    return float("nan")


def forging(trial):
    """For 2 to 5, write messages into every descriptor, as a hostile function may."""
    messages = {
        2: [{"stage": "run"}, {"stage": "run", "limit": "long"}],
        3: [{"answer": {"outcome": {"status": "ok", "value": "x"}, "problem": ""}}],
        4: [{"answer": {"outcome": {"status": "pending"}, "problem": ""}}],
        5: [{"answer": {"outcome": {"status": "ok", "value": 0.5}, "problem": 7}}],
    }
    for message in messages.get(trial["x"], ()):
        for number in range(20):  # the function does not know the number of the request
            line = json.dumps({"number": number, "at": time.perf_counter(), **message})
            for descriptor in range(3, 256):
                with contextlib.suppress(OSError):
                    os.write(descriptor, line.encode() + b"\n")
    return float(trial["x"])


def slow(trial):
    time.sleep(60)
    return 1.0


def half(trial):
    """Take a part of a second, so that four of them take longer than one."""
    time.sleep(0.3)
    return 1.0


def misbehave(trial):
    """Do what the parameter ``does`` says, after leaving a temporary file."""
    tempfile.mkstemp()
    MISDEEDS[trial["does"]](trial["tag"])
    return 1.0


def _segfault(tag):
    ctypes.string_at(0)


def _abort(tag):
    os.abort()


def _exit(tag):
    os._exit(3)


def _memory(tag):
    kept = []
    while True:
        kept.append(bytearray(16 << 30))


def _loop(tag):
    while True:
        pass


def _children(tag):
    """Leave one child in the group and one that has left it, then crash."""
    for away in (False, True):
        subprocess.Popen(
            [sys.executable, "-c", "import time; time.sleep(60)", tag],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=away,
        )
    _segfault(tag)


def _ignore(tag):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(60)


def _flood(tag):
    for _ in range(1000):
        os.write(1, b"x" * 65536)
    time.sleep(60)


MISDEEDS = {
    "segfault": _segfault,
    "abort": _abort,
    "exit": _exit,
    "memory": _memory,
    "loop": _loop,
    "children": _children,
    "ignore": _ignore,
    "flood": _flood,
    "nothing": lambda tag: None,
}

if __name__ == "__main__":  # as a command: what it does, and a tag
    print("time:", misbehave({"does": sys.argv[1], "tag": sys.argv[2]}))
