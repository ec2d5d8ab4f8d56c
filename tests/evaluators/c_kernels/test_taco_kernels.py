"""Kernels of taco: the layout of tensors, the spaces, and all failures, with a script in place of taco."""

import itertools
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import patient
import pytest
import taco_tensors as tensors
from kernel_checks import KERNELS, check_refusal, evaluate, load
from taco_kernels import TEMPLATES

from baco_like._tables import Table
from baco_like.evaluators import CKernelEvaluator, CKernelSettings, Repeats, registry
from baco_like.evaluators.kernels import complete_config
from baco_like.exceptions import EvaluatorError
from baco_like.records.trial import Status
from baco_like.spaces.space import Space

HERE = Path(__file__).parent
EINSUMS = {
    "spmm": "ij,jk->ik",
    "sddmm": "ij,ik,kj->ij",
    "mttkrp": "iklm,kj,lj,mj->ij",
    "spmv": "ij,j->i",
    "ttv": "ijk,k->ij",
}

needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")


@pytest.fixture
def taco(tmp_path):
    """A script with the command line of taco."""
    program = tmp_path / "taco"
    program.write_text(f"#!{sys.executable}\n{(HERE / 'fake_taco.py').read_text()}")
    program.chmod(0o755)
    return str(program)


def settings(kernel, taco, constants=None, **changed):
    own = {"KERNEL": kernel, "TACO": taco, "FLAGS": ["-O1"], "COLUMNS": 5, **(constants or {})}
    plain = {"repeats": Repeats(2), "size": 40, "tolerance": 1e-9}
    return CKernelSettings(KERNELS / "taco_kernels.py", constants=own, **{**plain, **changed})


def as_array(tensor):
    array = np.zeros(tensor.shape)
    array[tuple(tensor.places.T)] = tensor.values
    return array


@needs_cc
@pytest.mark.parametrize("problem", TEMPLATES)
def test_operands_and_results_are_where_taco_has_them(problem, taco):
    template = TEMPLATES[problem]
    chosen = settings(problem, taco, {"COLUMNS": 3}, size=12)
    evaluator = CKernelEvaluator(template.space(), chosen)
    outcome = evaluate(evaluator, template.reference())
    assert outcome.status is Status.OK, outcome.message
    assert len(outcome.repeats) == 2
    assert set(outcome.extra["seconds"]) == {"compile", "launch", "check", "run"}
    evaluator.close()


FAULTS = [
    ({"chunk": 2}, "compile", "taco: ended by SIGABRT: what():  Error at transformations.cpp"),
    ({"chunk": 4}, "compile", "undeclared"),
    ({"chunk": 8}, "correctness", "elements are wrong"),
    ({"chunk": 32}, "timeout", "launch: stopped after"),
    ({"chunk": 64}, "runtime", "SIGSEGV"),
    ({"chunk": 128}, "runtime", "exit code 73"),
    ({"chunk": 128, "omp_threads": 2, "omp_chunk": 4, "omp_schedule": "dynamic"}, None, ""),
    ({"chunk": 256}, "timeout", "taco: stopped after 1"),
]


@needs_cc
def test_what_may_go_wrong(taco, monkeypatch):
    monkeypatch.setenv("FAKE_TACO", "faulty")
    chosen = settings("spmm", taco, {"TACO_TIMEOUT": 1.0}, timeout=0.3)
    evaluator = CKernelEvaluator(Space({"chunk": [2**p for p in range(1, 9)]}), chosen)
    for config, word, message in FAULTS:
        outcome = evaluate(evaluator, config, patient.says(message))
        assert outcome.failed == word, (config, outcome.message)
        assert message in outcome.message
        assert outcome.bound == (300.0 if config["chunk"] == 32 else None)
    evaluator.close()


@needs_cc
def test_a_tensor_from_a_file(taco, tmp_path):
    file = tmp_path / "B.mtx"
    tensors.write(file, tensors.draw((9, 7), np.random.default_rng(0)))
    problem = shutil.copy(KERNELS / "taco_kernels.py", tmp_path)  # as a user does
    own = {"TENSOR": "B.mtx", "COLUMNS": 3, "FLAGS": ["-O1"], "TACO": taco}
    entries = {"kind": "c", "problem": "taco_kernels.py", "size": 1, "repeats": 1}
    table = Table("evaluator", {**entries, "tolerance": 1e-9, "constants": own})
    evaluator = registry.create(table, Space({"chunk": [16, 512]}), "us", tmp_path)
    assert evaluate(evaluator, {"chunk": 16}).status is Status.OK
    evaluator.close()
    ttv = replace(settings("ttv", taco, {"TENSOR": str(file)}), problem=problem)
    other = CKernelEvaluator(Space({"chunk": [2, 4]}), ttv)
    with pytest.raises(EvaluatorError, match="has 2 dimensions, the kernel needs 3"):
        evaluate(other, {})
    other.close()


def test_the_command_line():
    template = TEMPLATES["spmm"]
    config = {**template.reference(), "order": ("i0", "i1", "k", "jpos1", "jpos0"), "unroll": 4}
    assert template.commands(config) == (
        "split(i,i0,i1,16),pos(j,jpos,B),split(jpos,jpos0,jpos1,4),reorder(i0,i1,k,jpos1,jpos0),"
        "parallelize(i0,CPUThread,NoRaces),parallelize(k,CPUVector,IgnoreRaces)"
    )


def test_spaces_are_those_of_the_paper():
    sizes = {name: template.space().feasible_size for name, template in TEMPLATES.items()}
    assert sizes["spmm"] == 46656
    assert sizes["sddmm"] == 77760
    mttkrp = TEMPLATES["mttkrp"].space(threads=64)
    assert (
        mttkrp.size == 9 * 7 * 2 * 100 * 120
    )  # 1.5e6; the artifact ignores the order, 5 of 120 are right
    assert mttkrp.feasible_size == 680400 * 5 // 120


@pytest.mark.parametrize("problem", TEMPLATES)
def test_spaces_are_of_what_is_understood(problem):
    template = TEMPLATES[problem]
    space = template.space()
    assert space.contains(space.default_config)
    assert space.contains(template.reference())
    for config in space.sample(20, seed=1):
        assert complete_config(problem, template.domains(), config) == config
        assert "{" not in template.commands(config)


@pytest.mark.parametrize(
    ("problem", "orders"), [("spmm", 12), ("sddmm", 20), ("mttkrp", 5), ("spmv", 4), ("ttv", 24)]
)
def test_orders_that_are_known_to_work(problem, orders):
    template = TEMPLATES[problem]
    space, reference = template.space(), template.reference()
    every = itertools.permutations(template.loops)
    assert sum(space.contains({**reference, "order": order}) for order in every) == orders


@pytest.mark.parametrize("problem", TEMPLATES)
def test_references_against_dense_sums(problem):
    template, rng = TEMPLATES[problem], np.random.default_rng(1)
    shape = (6, 5, 4, 3)[: len(template.formats["B"])]
    tensor = tensors.draw(shape, rng)
    operands = template.operands(tensor, 2, rng)
    whole = as_array(tensor)
    assert np.allclose(
        template.expected(tensor, operands), np.einsum(EINSUMS[problem], whole, *operands)
    )


@pytest.mark.parametrize("formats", ["dd", "ds", "ss", "sd"])
def test_layouts_hold_the_tensor(formats):
    tensor = tensors.draw((7, 9), np.random.default_rng(2))
    levels, values = tensors.store(tensor, formats)
    array, at = np.zeros(tensor.shape), 0
    rows = range(7) if levels[0] is None else levels[0][1]
    for position, row in enumerate(rows):
        if levels[1] is None:
            array[row] = values[position * 9 : position * 9 + 9]
            continue
        starts, columns = levels[1]
        for at in range(starts[position], starts[position + 1]):
            array[row, columns[at]] = values[at]
    assert (array == as_array(tensor)).all()
    assert (as_array(tensors.restore(tensor.shape, levels, values)) == array).all()


@pytest.mark.parametrize("name", ["B.mtx", "B.tns"])
def test_files(name, tmp_path):
    tensor = tensors.draw((8, 6) if name == "B.mtx" else (8, 6, 5), np.random.default_rng(3))
    tensors.write(tmp_path / name, tensor)
    again = tensors.read(tmp_path / name)
    assert (again.places == tensor.places).all()
    assert (again.values == tensor.values).all()
    (tmp_path / name).write_text("none of this is a number")
    with pytest.raises(EvaluatorError, match="cannot be read"):
        tensors.read(tmp_path / name)


def test_made_tensors_have_rows_of_different_lengths():
    tensor = tensors.draw((400, 4000), np.random.default_rng(4))
    lengths = np.bincount(tensor.places[:, 0], minlength=400)
    assert 14 < lengths.mean() < 18
    assert lengths.max() > 5 * np.median(lengths)
    again = tensors.draw((400, 4000), np.random.default_rng(4))
    assert (again.values == tensor.values).all()


@pytest.mark.parametrize(
    ("entries", "parameters", "message"),
    [
        ({"constants": {"KERNEL": "spmn"}}, {"chunk": [2, 4]}, "expected one of spmm, sddmm"),
        ({"constants": {"TACO": "true", "TENSOR": "B.mtx"}}, {"chunk": [2, 4]}, "there is no file"),
        ({}, {"chunks": [2, 4]}, "did you mean 'chunk'"),
        ({}, {"omp_schedule": ["static", "guided"]}, "'guided' is not one of static, dynamic"),
        (
            {"constants": {"TACO": "no-such-taco"}},
            {"chunk": [2, 4]},
            r"TACO: the program 'no-such-taco' is not on PATH",
        ),
    ],
)
def test_wrong_tables(entries, parameters, message):
    whole = {"kind": "c", "problem": "taco_kernels.py", "size": 10, **entries}
    check_refusal(Table("evaluator", whole), parameters, message)


@pytest.mark.skipif(shutil.which("taco") is None, reason="needs the program taco")
@pytest.mark.parametrize("problem", TEMPLATES)
def test_taco_itself(problem):
    template = load("taco_kernels", KERNEL=problem).template()
    own = {"KERNEL": problem, "COLUMNS": 6}
    chosen = CKernelSettings(
        KERNELS / "taco_kernels.py", 50, repeats=Repeats(1), tolerance=1e-9, constants=own
    )
    evaluator = CKernelEvaluator(template.space(), chosen)
    outcome = evaluate(evaluator, template.reference(threads=2))
    assert outcome.status is Status.OK, outcome.message
    evaluator.close()
