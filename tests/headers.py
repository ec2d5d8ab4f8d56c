"""Compile headers that `baco_like.shipping` has written, as C and C++."""

import shutil
import subprocess

STRICT = ("-Wall", "-Wextra", "-pedantic", "-Werror")
COMPILERS = (("gcc", "-std=c99", "c"), ("g++", "-std=c++11", "c++"))


def compile_headers(paths):
    """Compile each file alone, by each compiler that is installed."""
    for compiler, standard, kind in COMPILERS:
        if paths and shutil.which(compiler) is not None:
            command = [compiler, standard, *STRICT, "-fsyntax-only", "-x", kind, *paths]
            # A header that is compiled alone does not use its static functions and tables.
            command += ["-Wno-unused-function", "-Wno-unused-variable"]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
