"""New processes of the command line that draw no plots, because Matplotlib takes most of the time of a short run."""

import subprocess
import sys

_MAIN = (
    "import runpy, sys; sys.modules['matplotlib'] = None; "
    "runpy.run_module('baco_like', run_name='__main__', alter_sys=True)"
)


def started(*words, **options):
    """Start the command line; its output is read as text."""
    command, pipe = [sys.executable, "-c", _MAIN, *map(str, words)], subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, **options)
