"""Python processes that start fast: forks of one process that has imported the package and large libraries.

Most of the time of a new process is the import of SciPy, Matplotlib and the package. A fork has them already.
Everything else is as in a new process: it has its own streams, signals and exit code, it runs with the modules as they
are after their import, and it ends as an interpreter ends, except that the system frees its memory. Tests of imports,
warnings of other projects, hash seeds or signals start a new interpreter instead.
"""

import atexit
import contextlib
import functools
import gc
import importlib
import json
import os
import pkgutil
import runpy
import signal
import subprocess
import sys
import tempfile
import threading
import warnings
from pathlib import Path

PRELOADED = (
    *("matplotlib.backends.backend_agg", "matplotlib.figure", "numpy", "pandas", "scipy.linalg"),
    *("scipy.optimize", "scipy.sparse.csgraph", "scipy.special", "scipy.stats", "sklearn.ensemble"),
    *("threadpoolctl", "tomllib", "tqdm", "typing_extensions", "vl_convert"),
)

NOT_PRELOADED = ("__main__", "_worker", "gpytorch", "integrations")
"""Parts of the names of our modules that need other packages, or begin to work when they are imported."""

MOST_SECONDS = 300


def run(*words, cwd=None, env=None):
    """Run ``python *words`` like `subprocess.run`; words are any ``-W error``, then ``-m name`` or a path."""
    with tempfile.TemporaryDirectory() as folder:
        out, err = Path(folder, "out"), Path(folder, "err")
        request = {
            "words": [*map(str, words)],
            "cwd": str(cwd or Path.cwd()),
            "env": dict(os.environ if env is None else env),
            "out": str(out),
            "err": str(err),
        }
        server = _server()
        server.stdin.write(json.dumps(request) + "\n")
        server.stdin.flush()
        code = int(server.stdout.readline())
        return subprocess.CompletedProcess(words, code, out.read_text(), err.read_text())


@functools.cache
def _server():
    command = [sys.executable, __file__]
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    atexit.register(server.communicate)
    return server


def _serve():
    """Answer each line with the exit code of a fork; return the request in the fork."""
    package = importlib.import_module("baco_like")
    modules = (module.name for module in pkgutil.walk_packages(package.__path__, "baco_like."))
    own = [name for name in modules if not any(part in name for part in NOT_PRELOADED)]
    for name in (*PRELOADED, *own):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    gc.freeze()  # else a fork copies the memory of all objects when it collects garbage
    warnings.filterwarnings("ignore", ".*fork", DeprecationWarning)  # threads of BLAS only
    while line := sys.stdin.readline():
        child = os.fork()
        if not child:
            return json.loads(line)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
    sys.exit()


def _become(request):
    """Run the program of a request in this process."""
    streams = (
        (os.devnull, os.O_RDONLY),
        (request["out"], os.O_WRONLY),
        (request["err"], os.O_WRONLY),
    )
    for number, (path, flags) in enumerate(streams):
        opened = os.open(path, flags | os.O_CREAT, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    signal.alarm(MOST_SECONDS)
    words = request["words"]
    if words[:2] == ["-W", "error"]:
        sys.warnoptions[:] = ["error"]
        warnings.simplefilter("error")
        del words[:2]
    if words[0] == "-m":
        sys.path[0] = request["cwd"]
        sys.argv[:] = words[1:]
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = str(Path(words[0]).parent)
        sys.argv[:] = words
        runpy.run_path(words[0], run_name="__main__")


def _end(program):
    """Run a program and end; the interpreter would free each object, and so copy the memory of the first process."""
    code = 0
    try:
        program()
    except SystemExit as end:
        code = end.code or 0
        if not isinstance(code, int):
            print(code, file=sys.stderr)
            code = 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    threading._shutdown()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    _end(functools.partial(_become, _serve()))
