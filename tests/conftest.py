"""Prepare the tests: default signal handlers, which a background job ignores, and no check of the machine.

The package is compiled first. Hundreds of processes import it, and where PYTHONDONTWRITEBYTECODE is set each of them
would compile it again. The collection of garbage is off while the tests are imported, and then leaves out the modules:
with PyTorch, Ray and Ax among them, each full collection would take a second.

Hypothesis draws the same examples in every run, so that a change passes on another machine if it passes here, and its
examples have no time limit, because a busy machine would exceed it. ``pytest --hypothesis-profile=explore`` draws new
examples, and four times as many for a property that does not say how many; the nightly run does so.
"""

import compileall
import gc
import os
import signal
from pathlib import Path

from hypothesis import HealthCheck, settings

signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

os.environ["BACO_LIKE_MACHINE_CHECK"] = "0"  # the notes depend on what else the machine does

compileall.compile_dir(Path(__file__).parents[1] / "baco_like", quiet=2)

settings.register_profile("explore", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile(
    "repeatable",
    settings.get_profile("explore"),
    max_examples=25,
    derandomize=True,
    database=None,
    print_blob=True,
)
settings.load_profile("repeatable")

gc.disable()


def pytest_collection_finish():
    gc.collect()
    gc.freeze()
    gc.enable()
