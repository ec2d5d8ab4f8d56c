"""BaCO's own program with its defaults: ten random configurations, then its Gaussian process.

It runs as a server in its own environment, because it needs packages of 2023: the variable BACO_PYTHON names a Python
that can import `baco` (see `../README.md`). Known constraints are given in its language, each with the last
parameter that it names. A repeated configuration is not charged, and its CPU time is not measured.
"""

import json
import os
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from baco_like import Categorical, Permutation, Space
from baco_like.constraints import Expression

from .measure import Measure
from .problem import Problem

START = """
import random, sys, numpy, torch
random.seed({seed}); numpy.random.seed({seed}); torch.manual_seed({seed})
from baco.run import optimize
optimize({scenario!r})
"""
"""BaCO has no setting for the seed: it draws from the global generators."""


def run(measure: Measure, seed: int) -> None:
    problem = measure.problem
    with tempfile.TemporaryDirectory() as folder:
        scenario = Path(folder) / "scenario.json"
        scenario.write_text(json.dumps(_scenario(problem.space, folder)))
        program = subprocess.Popen(
            [os.environ["BACO_PYTHON"], "-c", START.format(seed=seed, scenario=str(scenario))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            _serve(program, measure, problem)
        finally:
            program.kill()
            program.wait()


def _serve(program: subprocess.Popen[str], measure: Measure, problem: Problem) -> None:
    """Answer the requests of the program until the evaluations are spent.

    Raises:
        RuntimeError: The program has ended or sent something else.
    """
    assert program.stdin is not None
    assert program.stdout is not None
    for line in program.stdout:
        if not line.startswith("Request "):
            continue
        names = program.stdout.readline().strip().split(",")
        program.stdin.write(",".join([*names, "cost", "Valid"]) + "\n")
        for _ in range(int(line.split()[1])):
            texts = re.split(r",(?![^(]*[)])", program.stdout.readline().strip())
            given = dict(zip(names, texts, strict=True))
            indices = [
                [_text(one) for one in own].index(_text(_read(given[name])))
                for name, own in zip(problem.names, problem.choices, strict=True)
            ]
            cost = measure(problem.row_of(indices))
            answer = [str(measure.worst or 1.0), "False"] if cost is None else [str(cost), "True"]
            program.stdin.write(",".join([*texts, *answer]) + "\n")
        program.stdin.flush()
    raise RuntimeError("BaCO's program ended before its evaluations were spent")


def _read(text: str) -> Any:
    """Return a value from its text: an order, a number or a word."""
    if text.startswith("("):
        return tuple(int(one) for one in text.strip("()").split(","))
    try:
        return float(text)
    except ValueError:
        return text


def _text(value: Any) -> str:
    """Return the text by which values of BaCO and ours are compared: 8.0, 8 and "8" are equal."""
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return f"{value:g}" if isinstance(value, int | float) else _text(_read(value))


def _scenario(space: Space, folder: str) -> dict[str, Any]:
    described = {name: _parameter(space, name) for name in space.parameters}
    for constraint in space.constraints:
        assert isinstance(constraint, Expression)
        *others, last = sorted(constraint.parameters, key=list(described).index)
        described[last].setdefault("constraints", []).append(_numexpr(constraint.text))
        needed = described[last].setdefault("dependencies", [])
        needed += [name for name in others if name not in needed]
    return {
        "application_name": "suite",
        "baco_mode": {"mode": "client-server"},
        "optimization_objectives": ["cost"],
        "optimization_iterations": 5_000,
        "log_transform_output": True,
        "feasible_output": {
            "enable_feasible_predictor": True,
            "name": "Valid",
            "true_value": "True",
            "false_value": "False",
        },
        "run_directory": folder,
        "input_parameters": described,
    }


def _parameter(space: Space, name: str) -> dict[str, Any]:
    parameter = space.parameters[name]
    if isinstance(parameter, Permutation):
        elements = len(parameter.elements)
        return {
            "parameter_type": "permutation",
            "values": [elements],
            "parametrization": "spearman",
            "parameter_default": list(range(elements)),
        }
    values = list(space.values(name))
    if isinstance(parameter, Categorical):
        # Its server cannot send categories. Its own scenarios for TACO describe these parameters as ordinals too.
        values = [float(one) for one in values]
    transform = {"transform": "log"} if getattr(parameter, "log", False) else {}
    return {"parameter_type": "ordinal", "values": values, **transform}


def _numexpr(text: str) -> str:
    """Return a constraint in BaCO's language: `order_2` is the element at place 2, comparisons are in brackets."""
    text = re.sub(r"at\((\w+), (\d+)\)", r"\1_\2", text)
    text = text.replace(" and ", " & ").replace(" or ", " | ")
    if "&" in text or "|" in text:
        text = re.sub(r"(\w[\w +*%]*?) (==|!=|<=|>=|<|>) (\w+)", r"(\1 \2 \3)", text)
    return text
