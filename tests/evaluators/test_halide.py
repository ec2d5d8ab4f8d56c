"""Schedules in Halide: correct schedules give values, and every fault is reported."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from kernel_checks import KERNELS, evaluate, load

from baco_like.evaluators import HalideSettings, Repeats, halide_evaluator
from baco_like.exceptions import EvaluatorError
from baco_like.records.trial import Status
from baco_like.spaces.space import Space

pytest.importorskip("halide")

HERE = Path(__file__).parent
SIZE = 40
matmul, blur = load("halide_matmul"), load("halide_blur")


def settings(problem, **changed):
    return HalideSettings(
        KERNELS / f"halide_{problem}.py",
        **{"size": SIZE, "repeats": Repeats(2), "threads": 2, "timeout": 2.0, **changed},
    )


def check(problem, cases):
    evaluator = halide_evaluator(load(f"halide_{problem}").space(SIZE), settings(problem))
    for config, word, message in cases:
        outcome = evaluate(evaluator, config)
        assert outcome.failed == word, (config, outcome.message)
        assert message in outcome.message
        assert len(outcome.repeats) == (0 if word else 2)
    evaluator.close()


def test_any_order_of_the_safe_template_is_right():
    check("matmul", [(config, None, "") for config in matmul.space(SIZE).sample(4, seed=5)])


def test_the_hidden_template_fails_as_it_should():
    tiles = {"tx": 8, "ty": 8, "tk": 8}
    innermost, outermost = (
        ("yo", "xo", "ko", "yi", "xi", "ki"),
        ("ko", "yo", "xo", "ki", "yi", "xi"),
    )
    check(
        "matmul_hidden",
        [
            ({**tiles, "tx": 16, "vec": 8, "tail": "guard"}, None, ""),  # 16 does not divide 40
            ({**tiles, "tx": 16, "vec": 8, "tail": "round_up"}, "runtime", "beyond the max"),
            ({**tiles, "order": innermost, "vec": 4}, "compile", "race condition"),
            ({**tiles, "order": outermost, "parallel": True}, "compile", "race condition"),
        ],
    )


def test_where_the_blur_is_computed_and_stored():
    rows = ("yo", "yi", "xo", "xi")
    check(
        "blur",
        [
            ({}, None, ""),
            ({"compute": "root", "vec_first": 8}, None, ""),
            ({"compute": "xo", "store": "yo", "vec": 8, "parallel": True}, None, ""),
            ({"compute": "yi", "store": "xo"}, None, ""),  # rows slide
            ({"compute": "yo", "store": "xi"}, "compile", "invalid location"),
            ({"compute": "xo", "store": "root", "parallel": True}, "compile", "outside"),
            ({"compute": "xi", "vec_first": 16, "order": rows}, "runtime", "before the min"),
        ],
    )


def test_the_reference_of_the_blur_is_a_mean_of_nine():
    (image,) = blur.inputs(5, np.random.default_rng(0))
    mean = np.mean([image[j : j + 5, i : i + 5] for j in range(3) for i in range(3)], axis=0)
    assert np.allclose(blur.expected(image), mean)


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("host", {"none": None, "bounds": "runtime"}),
        ("host-no_asserts-no_bounds_query", {"crash": "runtime"}),
    ],
)
def test_a_problem_of_the_users(target, words):
    space = Space({"vec": [1, 4], "fault": ["none", "bounds", "crash"]})
    chosen = replace(settings("matmul", target=target), problem="halide_problem.py")
    evaluator = halide_evaluator(space, chosen, HERE)
    for fault, word in words.items():
        outcome = evaluate(evaluator, {"vec": 4, "fault": fault})
        assert outcome.failed == word, outcome.message
        assert fault != "crash" or "SIGSEGV" in outcome.message
    evaluator.close()


def test_a_compilation_has_its_limit():
    evaluator = halide_evaluator(matmul.space(SIZE), settings("matmul", build_timeout=0.01))
    outcome = evaluate(evaluator, {}, lambda outcome: True)
    evaluator.close()
    assert (outcome.status, outcome.failed) == (Status.FAILED, "timeout")


def test_a_file_that_hides_halide_is_named(tmp_path, monkeypatch):
    (tmp_path / "halide.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "halide", raising=False)
    with pytest.raises(EvaluatorError, match=r"halide\.py hides the package halide; rename"):
        halide_evaluator(matmul.space(SIZE), settings("matmul"))


PAIR = """
import halide as hl
import numpy as np
from baco_like.evaluators.kernels import InOut, Input, Output, Scalar
{declared}
def inputs(size, rng):
    return (rng.integers(0, 100, size).astype({type!r}),{more})

def expected(a, *more):
    return {expected}

def build(config, a, *more):
    x, pair = hl.Var("x"), hl.Func("pair")
    pair[x] = (a[x] + 1, a[x] + 2)
    return pair
"""


def pair(folder, **texts):
    plain = {"declared": "", "type": "int32", "more": "", "expected": "(a + 1, a + 2)"}
    (folder / "pair.py").write_text(PAIR.format(**{**plain, **texts}))
    chosen = replace(settings("matmul"), problem="pair.py", flush=True)
    return halide_evaluator(Space({"any": [1, 2]}), chosen, folder)


@pytest.mark.parametrize(
    ("expected", "word", "message"),
    [
        ("(a + 1, a + 2)", None, ""),
        ("(a + 1, a + 3)", "correctness", "argument 2: element 0 is"),
    ],
)
def test_a_pipeline_with_two_outputs(tmp_path, expected, word, message):
    evaluator = pair(tmp_path, expected=expected)
    outcome = evaluate(evaluator, {"any": 1})
    evaluator.close()
    assert outcome.failed == word, outcome.message
    assert message in outcome.message


def test_a_pipeline_that_leaves_half_of_its_output_is_found(tmp_path):
    (tmp_path / "half.py").write_text(
        PAIR.format(declared="", type="int32", more="", expected="a + 1").partition("def build")[0]
        + "def build(config, a):\n"
        "    x, half, rows = hl.Var('x'), hl.Func('half'), hl.RDom([(0, 20)])\n"
        "    half[x] = hl.undef(hl.Int(32))\n"
        "    half[rows.x] = a[rows.x] + 1\n"
        "    return half\n"
    )
    chosen = replace(settings("matmul"), problem="half.py")
    evaluator = halide_evaluator(Space({"any": [1, 2]}), chosen, tmp_path)
    outcome = evaluate(evaluator, {"any": 1})
    evaluator.close()
    assert outcome.failed == "correctness", outcome.message
    assert "element 20 is -1 instead of" in outcome.message
    assert "20 of 40 elements are wrong" in outcome.message


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ({"type": "complex64"}, "argument 0: Halide has no buffers of complex64"),
        ({"more": " np.float32(2)"}, "argument 1: a Halide pipeline has inputs and outputs only"),
        (
            {"declared": "def arguments(size):\n    return [InOut(), Output()]\n"},
            "argument 0: a Halide pipeline has inputs and outputs only",
        ),
    ],
)
def test_arguments_that_a_pipeline_cannot_have(tmp_path, texts, message):
    evaluator = pair(tmp_path, **texts)
    with pytest.raises(EvaluatorError, match=message):
        evaluate(evaluator, {"any": 1})
    evaluator.close()
