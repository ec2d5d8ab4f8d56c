"""The files that measured values depend on, as far as a run file and the files themselves name them.

They are read, never run: the files that a table names, the modules that a Python file imports from its folder, the
sources that its texts name, and the headers that sources include, each with its own dependencies.
"""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from os.path import relpath
from pathlib import Path
from typing import Any

from baco_like.exceptions import EvaluatorError
from baco_like.journal.header import CONTENT
from baco_like.results.files import hash_of_files

_INCLUDING = re.compile(
    r"\.(c|cc|cl|cpp|cu|cuh|cxx|h|hh|hip|hpp|hxx|i|inc|inl|ipp|m|mm|s|td|tpp)", re.IGNORECASE
)
"""Suffixes of files that may include headers."""

_SOURCE = re.compile(
    _INCLUDING.pattern
    + r"|\.(bc|cs|d|f|f03|f08|f90|f95|go|hs|java|jl|js|ll|lua|metal|ml|mlir|nim|pl|ptx|py|r|rb|rs|sh|swift|ts|zig)",
    re.IGNORECASE,
)
"""Suffixes of sources. Other files that a command or a text names may be written by the program."""

_COMMANDS = ("build", "before", "run", "check")
_INPUTS = ("problem", "reference", "file", "source")
"""Keys of tables whose values are commands, in the order of their execution, and files."""

_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*[\"<]([^\">\n]+)[\">]", re.MULTILINE)
_WORD = re.compile(r"[\w./+{}-]+")
_PLACEHOLDER = re.compile(r"\{[^{}]*\}")
_LONGEST_NAME = 255


def content_hashes(
    files: Iterable[str | Path], folder: str | Path = ".", *, required: bool = True
) -> dict[str, str]:
    """Return a hash of each file, and of each source that it imports or includes, for the context of a run.

    Args:
        files: Sources or other files; directories count as absent.
        folder: Folder in which relative paths begin, and to which the names in the result are relative.
        required: Whether a file that does not exist is an error.

    Returns:
        For each file its hash, by ``content of PATH``; the argument ``context`` of `Optimizer` accepts it.

    Raises:
        EvaluatorError: A file cannot be read.
    """
    folder = Path(folder).resolve()
    found: set[Path] = set()
    rest = [(folder / file, (folder / file).parent) for file in files]  # with where imports begin
    if required and (absent := [path for path, _ in rest if not path.is_file()]):
        raise EvaluatorError(f"{absent[0]} cannot be read: it is not a file")
    try:
        while rest:
            path, root = rest.pop()
            path = path.resolve()
            if path not in found and path.is_file():
                found.add(path)
                places = dict.fromkeys((path.parent, root, folder))
                names = set(filter(_is_name, _names_in(path)))
                rest += [(place / name, root) for place in places for name in names]
        return {
            f"{CONTENT}{relpath(path, folder)}": hash_of_files([path]) for path in sorted(found)
        }
    except OSError as error:
        raise EvaluatorError(f"{error.filename} cannot be read: {error.strerror}") from None


def source_texts(problem: Path) -> str:
    """Return the text of all sources that a problem file names or that they include, without Python files."""
    names = content_hashes([problem], problem.parent, required=False)
    files = [problem.parent / name.removeprefix(CONTENT) for name in names]
    return "\n".join(
        file.read_text(encoding="utf-8", errors="replace") for file in files if file.suffix != ".py"
    )


def table_hashes(entries: Mapping[str, Any], folder: Path) -> dict[str, str]:
    """Return the hashes of the files that an ``[evaluator]`` table names, as `content_hashes`.

    Args:
        entries: The table. Its key ``files`` names further files, which must exist.
        folder: Folder of the run file.

    Raises:
        EvaluatorError: A file cannot be read.
    """
    given = entries.get("files", [])
    given_inputs = [entries.get(key) for key in _INPUTS]
    texts = [text for x in given_inputs for text in (x if isinstance(x, list) else [x])]
    constants = entries.get("constants")
    if isinstance(constants, Mapping) and isinstance(entries.get("problem"), str):
        problem = folder / entries["problem"]
        texts += [str(problem.parent / v) for v in constants.values() if isinstance(v, str)]
    if isinstance(function := entries.get("function"), str):
        texts += _files_of("", function.partition(":")[0])
    named = [text for text in texts if isinstance(text, str) and _is_name(text)]
    commands = [text for key in _COMMANDS if isinstance(text := entries.get(key), str)]
    named += [name for command in commands for name in _sources_in(command, folder)]
    program = commands[0].split()[:1] if commands else []
    # A program that an earlier command may have built is not there yet, or a new one each time.
    named += [name for name in program if "/" in name and not Path(name).is_absolute()]
    return content_hashes(named, folder, required=False) | content_hashes(given, folder)


def missing_sources(words: Iterable[str], folder: Path, workdir: str) -> list[str]:
    """Return the sources that a command names and that do not exist; not its output, nor in a trial's folder."""
    before, found = "", []
    for word in words:
        names = [] if before == "-o" else _WORD.findall(word)
        found += [
            name for name in names if workdir not in name and _SOURCE.fullmatch(Path(name).suffix)
        ]
        before = word
    return [name for name in found if _is_name(name) and not (folder / name).exists()]


def _sources_in(command: str, folder: Path) -> Iterator[str]:
    """Yield the sources in a folder that a command names; a placeholder in a name matches any text."""
    words = set(_WORD.findall(command))
    with suppress(ValueError):
        words |= set(shlex.split(command))  # names in quotes
    for word in words:
        name = _PLACEHOLDER.sub("*", word)
        if not _SOURCE.fullmatch(Path(name).suffix) or not _is_name(name) or "{workdir" in word:
            continue
        if "*" not in name:
            yield name
        elif not Path(name).is_absolute():
            yield from map(str, folder.glob(name))


def _names_in(path: Path) -> Iterator[str]:
    """Yield names, which may be of no file, that a source imports, includes or mentions."""
    is_python = path.suffix == ".py"
    if not is_python and not _INCLUDING.fullmatch(path.suffix):
        return
    text = path.read_text(encoding="utf-8", errors="replace")
    if not is_python:
        yield from _INCLUDE.findall(text)
        return
    with suppress(SyntaxError, ValueError, RecursionError, MemoryError):
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    yield from _files_of("", alias.name)
            elif isinstance(node, ast.ImportFrom):
                start = "../" * (node.level - 1)
                for alias in node.names:
                    yield from _files_of(start, f"{node.module or ''}.{alias.name}".lstrip("."))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield from _INCLUDE.findall(node.value)
                # path.with_suffix(".cl")
                name = node.value
                if _SOURCE.fullmatch(name):
                    name = path.stem + name
                if _is_name(name) and _SOURCE.fullmatch(Path(name).suffix):
                    yield name


def _files_of(start: str, module: str) -> Iterator[str]:
    """Yield the files that an import of a module, or of a name from a module, may run."""
    stem = start
    for part in module.split("."):
        stem += part
        yield from (f"{stem}.py", f"{stem}/__init__.py")
        stem += "/"


def _is_name(text: str) -> bool:
    """Whether a text may be the name of a file."""
    return 0 < len(text) <= _LONGEST_NAME and "\n" not in text and "\0" not in text
