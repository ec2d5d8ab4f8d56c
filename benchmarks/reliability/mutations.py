"""Small changes of valid files: of their bytes, and of their JSON content."""

import copy
import json
import random
from typing import Any

CANARY = "canary-that-nobody-may-touch"

TOKENS: list[Any] = [
    None,
    True,
    False,
    0,
    -1,
    1,
    2.5,
    -0.0,
    1e308,
    1e-320,
    2**53 + 1,
    -(2**63),
    10**400,
    float("nan"),
    float("inf"),
    "",
    "x",
    "nan",
    "1e999",
    "\0",
    "\ud800",
    "é" * 40,
    "[1, 2, 4]",
    "range(10**12)",
    "9**9**9",
    "(" * 200 + ")" * 200,
    f"__import__('pathlib').Path('{CANARY}').touch()",
    f"$(touch {CANARY})",
    f"`touch {CANARY}`; touch {CANARY} #",
    "../../../../escaped",
    "/escaped",
    [],
    {},
    [[]],
    [None],
    [1, 1],
    {"": ""},
    list(range(300)),
]

PIECES = [
    b"\0",
    b"\n",
    b'"',
    b"{",
    b"]",
    b",",
    b"\\u0000",
    b"\xff\xfe",
    b"1e400",
    b"NaN",
    b"-",
    b"9" * 400,
    b"[" * 3000,
    b'{"a":' * 1000,
    b"'''",
    b"#",
    b"=",
    b"true",
]


def bytes_changed(data: bytes, others: list[bytes], rng: random.Random) -> bytes:
    """Return the data with one to four places flipped, cut, doubled, filled or taken from another file."""
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        at = rng.randrange(len(data) + 1)
        to = min(len(data), at + rng.choice((1, 2, 8, 64, 512)))
        kind = rng.randrange(7)
        if kind == 0:
            data = data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]
        elif kind == 1:
            data = data[:at] + data[to:]
        elif kind == 2:
            data = data[:to] + data[at:to] * rng.choice((1, 1, 50)) + data[to:]
        elif kind == 3:
            data = data[:at] + rng.choice(PIECES) + data[at:]
        elif kind == 4:
            data = data[:at]
        elif kind == 5:
            data = data[:at] + rng.choice(PIECES) + data[to:]
        else:
            other = rng.choice(others)
            start = rng.randrange(len(other) + 1)
            data = data[:at] + other[start : start + to - at + 1] + data[to:]
    return data[:200_000]


def places(document: Any) -> list[tuple[Any, Any]]:
    """Return every place of a document as a container and a key."""
    found, waiting = [], [document]
    while waiting:
        one = waiting.pop()
        keys = (
            list(one) if isinstance(one, dict) else range(len(one)) if isinstance(one, list) else ()
        )
        for key in keys:
            found.append((one, key))
            waiting.append(one[key])
    return found


def document_changed(document: Any, rng: random.Random) -> Any:
    """Return a copy with one to three values replaced, moved, doubled, renamed or taken out."""
    document = copy.deepcopy(document)
    for _ in range(rng.choice((1, 1, 2, 3))):
        found = places(document)
        if not found:
            return rng.choice(TOKENS)
        (one, key), (other, name) = rng.choice(found), rng.choice(found)
        kind = rng.randrange(6)
        if kind <= 1:
            one[key] = copy.deepcopy(rng.choice(TOKENS))
        elif kind == 2:
            one[key] = copy.deepcopy(other[name])
        elif kind == 3:
            del one[key]
        elif isinstance(one, list):
            one.insert(key, copy.deepcopy(one[key]))
        elif kind == 4:
            one[rng.choice(("", "x", "type", str(name)))] = one.pop(key)
        else:
            one[rng.choice(("x", "extra", str(name)))] = copy.deepcopy(rng.choice(TOKENS))
    return document


def json_changed(data: bytes, others: list[bytes], rng: random.Random) -> bytes:
    """Return a JSON file with its document changed, or in one of four cases its bytes."""
    if rng.random() < 0.25:
        return bytes_changed(data, others, rng)
    try:
        document = document_changed(json.loads(data), rng)
    except (ValueError, RecursionError):
        return bytes_changed(data, others, rng)
    return json.dumps(document).encode("utf-8", "surrogatepass")
