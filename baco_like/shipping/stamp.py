"""The stamp of a shipped file: what was tuned, where, with which tools, and how good the evidence is."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

import msgspec

from baco_like._checks import nesting_depth, reject_constant
from baco_like.exceptions import RunFileError
from baco_like.results.files import MOST_BYTES

T = TypeVar("T")

MARKER = "baco-like-stamp: "
"""Text before the stamp in a comment of a source file."""

_DEEPEST = 32


@dataclass(frozen=True)
class Stamp:
    """Where the entries of a shipped file come from.

    Attributes:
        space: Fingerprint of the space; see `fingerprint`.
        objective: Name of the measured value.
        unit: Its unit, or an empty text.
        direction: Whether smaller or larger values are better.
        device: Name of the device, or None if it is unknown. Without another name it is the model of the CPU.
        compiler: First line of the compiler's version, or None.
        host: Name of the machine, its architecture and system.
        versions: Versions of the libraries at the time of the run.
        date: When the latest run began, as text.
        evidence: For each entry its task and how sure it is; see `Evidence`.
        sources: Hashes of the files that the values depend on, by path from the folder of the run file.
    """

    space: str
    objective: str = ""
    unit: str = ""
    direction: str = "minimize"
    device: str | None = None
    compiler: str | None = None
    host: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    date: str = ""
    evidence: tuple[Mapping[str, Any], ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return asdict(self)

    def differences(
        self,
        space: str | None = None,
        device: str | None = None,
        compiler: str | None = None,
        sources: Mapping[str, str] | None = None,
    ) -> list[str]:
        """Return one sentence for each fact that differs now; facts that are unknown on either side are not compared.

        Args:
            space: Fingerprint of the present space.
            device: Name of the present device.
            compiler: First line of the present compiler's version.
            sources: Hashes of the present files, by path.
        """
        edited = [
            name for name, old in self.sources.items() if (sources or {}).get(name, old) != old
        ]
        facts = (
            ("space", "the space has changed", self.space, space),
            ("device", "another device", self.device, device),
            ("compiler", "another compiler", self.compiler, compiler),
        )
        return [
            f"{reason}: it was tuned with {name} {old!r}, now it is {new!r}"
            for name, reason, old, new in facts
            if old and new and old != new
        ] + [describe_edit(name) for name in edited]


def describe_edit(name: str) -> str:
    """Return the sentence about a file that was edited after the run."""
    return (
        f"{name} was edited after the run, so the values belong to its old content: restore it, or tune again with "
        "another --out"
    )


_TEXTS = ("constraints", "when")
"""Keys of the description of a space that hold texts in the language of constraints."""


def fingerprint(space: Mapping[str, Any]) -> str:
    """Return 16 hexadecimal digits that identify the description of a space by `Space.to_dict`.

    White space in constraints and conditions does not count.
    """
    described = {**space, **_without_spaces({k: space[k] for k in _TEXTS if k in space})}
    tasks = space.get("tasks")
    if isinstance(tasks, Mapping) and "constraints" in tasks:
        described["tasks"] = {**tasks, "constraints": _without_spaces(tasks["constraints"])}
    text = json.dumps(described, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _without_spaces(texts: Any) -> Any:
    """Return texts, or lists or objects of texts, with white space only between two words and in literals."""
    if isinstance(texts, str):
        parts = re.split(r"""('[^']*'|"[^"]*")""", texts)
        parts[::2] = [re.sub(r"\s*(\W)\s*", r"\1", " ".join(p.split())) for p in parts[::2]]
        return "".join(parts)
    if isinstance(texts, Mapping):
        return {name: _without_spaces(value) for name, value in texts.items()}
    return [_without_spaces(value) for value in texts] if isinstance(texts, list) else texts


def stamp_text(stamp: Stamp) -> str:
    r"""Return a stamp as ASCII that is safe in comments and string literals of C and Python.

    Slashes and question marks are written as ``\u002f`` and ``\u003f``, so the text can neither end a comment of C nor
    contain a trigraph.
    """
    text = json.dumps(stamp.to_dict(), separators=(",", ":"))
    return text.replace("/", r"\u002f").replace("?", r"\u003f")


def parse_json(text: str, what: str) -> Any:
    """Return the value of a JSON text of somebody else.

    Raises:
        RunFileError: It is too large, nested too deep, or not JSON.
    """
    if len(text) > MOST_BYTES or nesting_depth(text) > _DEEPEST:
        raise RunFileError(f"{what}: too large, or nested more than {_DEEPEST} deep")
    try:
        return json.loads(text, parse_constant=reject_constant)
    except (ValueError, RecursionError) as error:
        raise RunFileError(f"{what}: not JSON ({error})") from None


def convert(data: Any, kind: type[T]) -> T:
    """Return JSON values of somebody else as an object of a type.

    Raises:
        RunFileError: They do not fit its fields; the message names the place, such as ``$.stamp.space``.
    """
    try:
        return msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        raise RunFileError(f"{kind.__name__.strip('_').lower()}: {error}") from None
