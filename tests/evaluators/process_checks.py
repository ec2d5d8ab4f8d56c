"""Helpers for the tests of child processes: whether one lives, and what is left of it."""

import os
import shutil
import sys
import time
from pathlib import Path

import pytest

from baco_like.evaluators._processes import child

PATIENCE = 60.0
"""Seconds in which a command ends or a killed process is gone: more than any pause of this machine."""

needs_setsid = pytest.mark.skipif(
    sys.platform != "linux" or shutil.which("setsid") is None, reason="needs setsid of util-linux"
)


def alive(tag):
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


def gone(tag):
    deadline = time.monotonic() + PATIENCE
    while alive(tag) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not alive(tag)


def children_of_ours():
    """Return the numbers of our children, zombies too."""
    child.prepare()  # it stays
    return set(Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split())
