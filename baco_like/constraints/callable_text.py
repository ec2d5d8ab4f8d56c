"""A text that identifies a callable: the same in every file, and different if the callable computes something else."""

from __future__ import annotations

import ast
import dis
import hashlib
import linecache
from collections.abc import Callable
from types import CellType, CodeType
from typing import Any


def describe_callable(function: Callable[..., Any]) -> str:
    """Return a callable's name, or a lambda's source, with the numbers and texts that it reads from outside.

    A journal keeps this text; on resume a different text is a different constraint.
    """
    name = getattr(function, "__name__", type(function).__name__)
    code = getattr(function, "__code__", None)
    if not isinstance(code, CodeType):
        return str(name)
    text = _source(code) if name == "<lambda>" else str(name)
    outside = ", ".join(f"{k} = {v!r}" for k, v in _read_outside(function, code).items())
    return f"{text} with {outside}" if outside else text


def _source(code: CodeType) -> str:
    """Return the source of a lambda or, if it is ambiguous, its arguments with a digest of its code."""
    lines = "".join(linecache.getlines(code.co_filename))
    arguments = code.co_varnames[: code.co_argcount]
    try:
        nodes = [n for n in ast.walk(ast.parse(lines)) if isinstance(n, ast.Lambda)]
    except SyntaxError:
        nodes = []
    there = [
        n
        for n in nodes
        if n.lineno == code.co_firstlineno and tuple(a.arg for a in n.args.args) == arguments
    ]
    texts = {ast.unparse(n) for n in there}
    if len(texts) == 1:
        return texts.pop()
    done = hashlib.sha256(repr(_steps(code)).encode())
    return f"lambda {', '.join(arguments)} (code {done.hexdigest()[:8]})"


def _steps(code: CodeType) -> tuple[Any, ...]:
    """Return the code's instructions and constants, without positions in files and memory."""
    constants = (_steps(c) if isinstance(c, CodeType) else _in_order(c) for c in code.co_consts)
    return (code.co_code, code.co_names, *constants)


def _in_order(constant: Any) -> Any:
    return sorted(map(repr, constant)) if isinstance(constant, frozenset) else constant


def _read_outside(function: Callable[..., Any], code: CodeType) -> dict[str, Any]:
    """Return the plain values that a function reads from its closure and its module."""
    cells = zip(code.co_freevars, getattr(function, "__closure__", None) or (), strict=False)
    found = {name: _content(cell) for name, cell in cells}
    own = getattr(function, "__globals__", {})
    named = (step.argval for step in dis.get_instructions(code) if step.opname == "LOAD_GLOBAL")
    found.update((name, own[name]) for name in named if name in own)
    return {k: v for k, v in sorted(found.items()) if isinstance(v, bool | int | float | str)}


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not bound yet
        return None
