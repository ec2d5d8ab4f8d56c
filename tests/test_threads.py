"""The limit of threads holds during suggestions only, also in several threads and where libraries come later."""

import os
import subprocess
import sys
import threading
import warnings

import pytest
import threadpoolctl

from baco_like import ConfigError, Optimizer, Sharing, Space, tune
from baco_like._threads import resolve_threads, thread_limit
from baco_like.optimizer import view
from baco_like.running import MaxEvals, run_file
from baco_like.strategies import RandomSearch

USUAL = 3


def numbers():
    """Return the number of threads of every loaded BLAS."""
    return {lib["num_threads"] for lib in threadpoolctl.threadpool_info() if "blas" in str(lib)}


@pytest.fixture(autouse=True)
def usual(monkeypatch):
    """Let the libraries use three threads, as on a machine with three cores."""
    monkeypatch.delenv("BACO_LIKE_THREADS", raising=False)
    with threadpoolctl.threadpool_limits(USUAL):
        if numbers() != {USUAL}:
            pytest.skip("NumPy's BLAS has a fixed number of threads")
        yield
        assert numbers() == {USUAL}


class Spy(RandomSearch):
    """Notes the number of threads at each suggestion."""

    seen: list = []  # noqa: RUF012

    def ask(self, problem, history, state, n, rng):
        self.seen.append(numbers())
        return super().ask(problem, history, state, n, rng)


def seen_in_suggest(threads=None):
    Spy.seen = []
    opt = Optimizer(Space({"a": [1, 2, 3]}), strategy=Spy(), sharing=Sharing(threads=threads))
    outside = []
    opt._callbacks = (lambda *_: outside.append(numbers()),)
    opt.observe(opt.suggest(), 1.0)
    assert outside == [{USUAL}]
    return Spy.seen


def test_a_suggestion_uses_one_thread_and_callbacks_all():
    assert seen_in_suggest() == [{1}]


def test_the_number_is_an_argument_or_an_environment_variable(monkeypatch):
    assert seen_in_suggest(threads=2) == [{2}]
    assert seen_in_suggest(threads=0) == [{USUAL}]
    monkeypatch.setenv("BACO_LIKE_THREADS", "2")
    assert seen_in_suggest() == [{2}]
    assert seen_in_suggest(threads=1) == [{1}]
    monkeypatch.setenv("BACO_LIKE_THREADS", "0")
    assert seen_in_suggest() == [{USUAL}]


def test_a_limit_never_raises_the_number():
    assert seen_in_suggest(threads=8) == [{USUAL}]


def test_the_objective_uses_all_threads():
    inside = []
    Spy.seen = []
    tune(
        lambda trial: inside.append(numbers()) or 1.0,
        Space({"a": [1, 2, 3]}),
        stop=MaxEvals(2),
        strategy=Spy(),
        progress=False,
    )
    assert inside == [{USUAL}] * 2
    assert Spy.seen == [{1}] * 2


def test_predictions_are_limited_too(monkeypatch):
    opt, seen = Optimizer(Space({"a": [1, 2, 3]}), strategy="random_search"), []
    monkeypatch.setattr(view, "predict", lambda *_: seen.append(numbers()) or 1 / 0)
    monkeypatch.setattr(view, "recommend", lambda *_: seen.append(numbers()))
    with pytest.raises(ZeroDivisionError):
        opt.predict([{"a": 1}])
    opt.recommend()
    assert seen == [{1}] * 2


@pytest.mark.parametrize("wrong", [-1, 1.5, "two", True])
def test_wrong_numbers(wrong, monkeypatch):
    with pytest.raises(ValueError, match="threads"):
        Optimizer(Space({"a": [1, 2]}), sharing=Sharing(threads=wrong))
    monkeypatch.setenv("BACO_LIKE_THREADS", str(wrong))
    with pytest.raises(ConfigError, match="BACO_LIKE_THREADS"):
        resolve_threads(None)


def test_overlapping_blocks_restore_the_numbers():
    with thread_limit(2):
        with thread_limit(1):
            assert numbers() == {2}
        assert numbers() == {2}
        thread = threading.Thread(target=lambda: thread_limit(1).__enter__())
        thread.start()
        thread.join()
        assert numbers() == {2}
    assert numbers() == {USUAL}


def test_a_forked_child_is_limited_although_its_parent_was():
    with thread_limit(2), warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of a fork beside other threads
        child = os.fork()
        if child == 0:
            with thread_limit(1):
                os._exit(0 if numbers() == {1} else 1)
    assert os.waitpid(child, 0)[1] == 0


FRESH = """
import sys, threadpoolctl
from baco_like._threads import load_libraries, thread_limit

def numbers():
    return {lib["num_threads"] for lib in threadpoolctl.threadpool_info() if "blas" in str(lib)}

assert "scipy.linalg" not in sys.modules
import numpy
usual = numbers()
with thread_limit(1):
    load_libraries("scipy.linalg")
    assert "scipy.linalg" in sys.modules
    assert numbers() == {1}, numbers()
assert numbers() == usual, numbers()

from baco_like import Integer, Optimizer, Permutation, Real, Space

orders = Permutation(["i", "j", "k", "l"])
space = Space({"r": Real(0.001, 5, log=True), "n": Integer(1, 40), "o": orders})

def evaluated():
    run = Optimizer(space, budget=30)
    for i in range(12):
        t = run.suggest()
        value = 1 + abs(t["r"] - 1) + t["n"] / 7 + t["o"].index("i")
        run.observe(t, **({"failed": "compile"} if i % 5 == 3 else {"value": value}))
    return [(dict(t), t.tag) for t in run.trials]
"""


@pytest.mark.parametrize("code", ["", "assert evaluated() == evaluated()"])
def test_libraries_of_the_first_fit_of_a_process_are_limited(code):
    """A new process: the first fit imports SciPy within the block."""
    threads = {"OPENBLAS_NUM_THREADS": "3", "OMP_NUM_THREADS": "3"}
    text = FRESH if not code else FRESH[FRESH.index("from baco_like import") :] + code
    done = subprocess.run(
        [sys.executable, "-c", text],
        env={**os.environ, **threads},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_an_error_restores_the_numbers():
    with pytest.raises(ArithmeticError), thread_limit(1):
        raise ArithmeticError
    assert numbers() == {USUAL}


def test_pytorch_is_limited_where_it_is_loaded():
    torch = pytest.importorskip("torch")
    before = torch.get_num_threads()
    torch.set_num_threads(USUAL)
    try:
        with thread_limit(1):
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == USUAL
    finally:
        torch.set_num_threads(before)


def test_run_file(tmp_path):
    text = (
        "[space.a]\ntype = 'ordinal'\nvalues = [1, 2]\n[evaluator]\nkind = 'command'\nrun = 'true {a}'\n"
        "measure = 'wall'\n[objective]\nunit = 's'\n[budget]\nevaluations = 2\n[optimizer]\nthreads = 2\n"
    )
    path = tmp_path / "run.toml"
    path.write_text(text)
    assert run_file.read(path).sharing.threads == 2
    path.write_text(text.replace("threads = 2", ""))
    assert run_file.read(path).sharing.threads is None
