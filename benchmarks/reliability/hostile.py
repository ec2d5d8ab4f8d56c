"""Inputs that try to exhaust a reader: long lines, deep nesting, odd cells, and archives that unpack to gigabytes.

Each generator has the form of a mutation: it takes a valid input, other inputs and a random generator, and returns the
bytes of a file. A `Sparse` file has a hole of zeros after its bytes, which takes no space on the disk.
"""

import gzip
import random
from functools import cache

from mutations import bytes_changed

MIB = 2**20


class Sparse(bytes):
    """The bytes before a hole; `hole` is its length, and `tail` follows it."""

    hole: int = 0
    tail: bytes = b""


def sparse(head: bytes, hole: int, tail: bytes) -> Sparse:
    made = Sparse(head)
    made.hole, made.tail = hole, tail
    return made


def repeats(unit: bytes, rng: random.Random, largest: int) -> bytes:
    """Return a unit repeated to a size between 16 bytes and the largest; small sizes are as likely as large ones."""
    size = int(16 * (largest / 16) ** rng.random())
    return (unit * (size // len(unit) + 1))[:size]


def inserted(data: bytes, text: bytes, rng: random.Random) -> bytes:
    """Return the data with a text at a place, mostly the start or end of a line."""
    ends = [i + 1 for i, byte in enumerate(data[:100_000]) if byte == 10]
    at = rng.choice([0, len(data), *ends, rng.randrange(len(data) + 1)])
    return data[:at] + text + data[at:]


# Lines of a client --------------------------------------------------------------------------------------------------

LINE_UNITS = [
    b" ", b",", b'"', b"(", b")", b"(a,", b'"a,', b'""x,', b'"" ', b'"a" ', b"(1) ", b'"(,', b"9", b"1,2,1" + b" " * 99,
    b"\0", b"\xff", b"\r", b"value,", b"nan,", "\u2003".encode(), b"1,0.5,2,a,(0, 1, 2),3.5,True,", b"-", b"1e9",
]  # fmt: skip


def long_lines(data: bytes, others: list[bytes], rng: random.Random) -> bytes:
    """Return replies with lines of up to 3 MiB, or with one of a gigabyte."""
    if rng.random() < 0.1:
        head = rng.choice([b"", b"x,r,i,c,p,value,Valid\n", b"x,r,i,c,p,value,Valid\n1,"])
        return sparse(head, rng.choice([2**20 - 1, 2**20, 2**30]), rng.choice([b"", b"\n", b"1\n"]))
    for _ in range(rng.choice((1, 1, 3))):
        line = repeats(rng.choice(LINE_UNITS), rng, 3 * MIB)
        prefix = rng.choice([b"", b"x,r,i,c,p,value,Valid", b"1,0.5,2,a,(0, 1, 2),", b'"', b"("])
        data = inserted(
            data, prefix + line + rng.choice([b"", b"x", b",3.5,True", b'"', b")"]) + b"\n", rng
        )
    return data


# TOML and JSON ------------------------------------------------------------------------------------------------------


def deep_toml(data: bytes, others: list[bytes], rng: random.Random) -> bytes:
    """Return a run file with long keys, nested brackets, many tables or long texts; mostly below 1 MiB."""
    part = rng.choice([b"a", b'"a b"', b"'a'", b"a ", b"space", b'"\\""'])
    dots = rng.choice([2, 8, 16, 17, 40, 30_000])
    key = b".".join([part] * dots)
    depth = rng.choice([2, 15, 16, 17, 500, 100_000])
    number = int(4 * 20_000 ** rng.random())
    kind = rng.randrange(9)
    if kind == 0:
        text = rng.choice([b"%s = 1", b"[%s]", b"[[%s]]", b"x = { %s = 1 }"]) % key
    elif kind == 1:
        number = min(number, MIB // (len(key) + 12))
        form = rng.choice(["[b{}.{}]", "b{}.{} = 1", "[[b{}.{}]]", "b{} = {{ {} = 1 }}"])
        text = "\n".join(form.format(i, key.decode()) for i in range(number)).encode()
    elif kind == 2:
        text = b"x = " + b"[" * depth + b"]" * rng.choice([0, depth])
    elif kind == 3:
        text = b"x = " + b"{a=" * depth + b"1" + b"}" * rng.choice([0, depth])
    elif kind == 4:
        text = b"x = [" + repeats(
            rng.choice([b"[],", b"{},", b"1,", b"'',", b"[[]],{a={}},"]), rng, MIB
        )
    elif kind == 5:
        quote = rng.choice([b'"', b"'", b'"""', b"'''"])
        unit = rng.choice(
            [b"a", b"[", b"{", b'\\"', b"\\\\", b" ", b"\n", b'""', b"'", b"\\", b"#"]
        )
        text = b"x = " + quote + repeats(unit, rng, MIB) + rng.choice([quote, b""])
    elif kind == 6:
        text = b"#" + repeats(rng.choice([b"[", b"'", b'"""', b"a.b."]), rng, MIB)
    elif kind == 7:
        names = "\n".join(
            f'[space.p{i}]\ntype = "integer"\nlow = 1\nhigh = 9' for i in range(number // 20)
        )
        text = names.encode()
    else:
        text = repeats(
            rng.choice([b"a = 1\n", b"[a]\n", b"[[a]]\n", b"\r", b"=", b"a", b" ", b"9"]),
            rng,
            2 * MIB,
        )
    return inserted(data, b"\n" + text + b"\n", rng)


def deep_json(data: bytes, others: list[bytes], rng: random.Random) -> bytes:
    """Return a JSON file with nested brackets, long numbers or texts, or many values; up to 10 MiB."""
    depth = rng.choice([2, 30, 40, 900, 100_000])
    unit = rng.choice([b"[],", b"{},", b"1,", b'"",', b"[[]],", b"1.5,", b"null,"])
    value = rng.choice(
        [
            b"[" * depth + b"]" * rng.choice([0, depth]),
            b'{"a":' * depth + b"1" + b"}" * rng.choice([0, depth]),
            b"[" + repeats(unit, rng, 10 * MIB).rstrip(b",") + b"]",
            b'"'
            + repeats(rng.choice([b"a", b"\\\\", b'\\"', b"[", b"\\u0041"]), rng, 10 * MIB)
            + b'"',
            repeats(b"9", rng, MIB),
            b"1e" + repeats(b"9", rng, MIB),
            b"{" + b",".join(b'"k%d":%d' % (i, i) for i in range(rng.choice([9, 9999]))) + b"}",
        ]
    )
    if rng.random() < 0.5:
        # in place of a value: the text after a colon or comma, up to the next one
        marks = [i for i, byte in enumerate(data[:100_000]) if byte in b":,"]
        at = rng.randrange(len(marks) - 1) if len(marks) > 1 else 0
        return data[: marks[at] + 1] + value + data[marks[at + 1] :]
    key = rng.choice(
        [b"x", b"input_parameters", b"ConfigurationSpace", b"results", b"cache", b"run_directory"]
    )
    return b'{"' + key + b'":' + value + b"," + data.lstrip()[1:]


# Tables -------------------------------------------------------------------------------------------------------------

CELL_UNITS = [
    b"(",
    b"[",
    b"((",
    b")",
    b'"',
    b'""',
    b"(0, ",
    b"[1,",
    b" ",
    b"9",
    b"\0",
    b"\xff",
    b"{",
    b"-",
    b"\r",
    b"_",
]


def odd_cells(data: bytes, others: list[bytes], rng: random.Random) -> bytes:
    """Return a CSV file with long or nested cells, in place of a cell or at a line; up to 3 MiB."""
    for _ in range(rng.choice((1, 2, 5))):
        text = repeats(rng.choice(CELL_UNITS), rng, 3 * MIB)
        cell = rng.choice([b"%s", b'"%s"', b'"(%s)"', b"(%s)", b'"%s', b"[%s]"]) % text
        kind = rng.randrange(3)
        lines = data.split(b"\n")
        at = rng.randrange(len(lines))
        if kind == 0:
            cells = lines[at].split(b",")
            cells[rng.randrange(len(cells))] = cell
            lines[at] = b",".join(cells)
        elif kind == 1:
            lines[at] = rng.choice([b"%s,%s", b"%s\n%s", b"%s\r%s"]) % (cell, lines[at])
        else:
            lines[at] += repeats(rng.choice([b",", b",1", b'," "', b",a"]), rng, MIB)
        data = b"\n".join(lines)
    return data[: 6 * MIB]


# Archives and holes -------------------------------------------------------------------------------------------------


@cache
def _member(unit: bytes) -> bytes:
    """Return a gzip member that unpacks to 16 MiB."""
    return gzip.compress((unit * (16 * MIB // len(unit) + 1))[: 16 * MIB], 6, mtime=0)


def archive(data: bytes, others: list[bytes], rng: random.Random) -> bytes:
    """Return a file with a hole, or a compressed one that is cut, damaged or unpacks to up to 1.5 GB."""
    kind = rng.randrange(6)
    if kind == 0:
        hole = rng.choice([1, MIB, 63 * MIB, 65 * MIB, 1500 * MIB])
        cut = rng.choice([0, len(data) // 2, len(data)])
        return sparse(data[:cut], hole, data[cut:])
    start = gzip.compress(data, mtime=0)
    if kind == 1:
        unit = rng.choice([b"\0", b" ", b"\n", b"[", b"a", b",", b'"', b"0,", b"[],", b"{},\n"])
        number = rng.choice([1, 3, 4, 5, 96])
        return rng.choice([start, b""]) + _member(unit) * number
    if kind == 2:
        row = data.rstrip(b"\n").rpartition(b"\n")[2] + b"\n"
        return start + _member(row) * rng.choice([1, 3, 4, 96])
    if kind == 3:
        return start[: rng.randrange(len(start))]
    if kind == 4:
        return bytes_changed(start, [start], rng)
    nested = data
    for _ in range(rng.choice((2, 9))):
        nested = gzip.compress(nested, mtime=0)
    return nested


def long_journal(data: bytes, others: list[bytes], rng: random.Random) -> bytes:
    """Return a journal with a hole of up to 1.5 GB, or with an event of up to 3 MiB."""
    lines = data.splitlines(keepends=True)
    at = rng.randrange(len(lines) + 1)
    if rng.random() < 0.3:
        hole = rng.choice([1, MIB, 80 * MIB, 1500 * MIB])
        return sparse(b"".join(lines[:at]), hole, rng.choice([b"", b"\n", b"".join(lines[at:])]))
    unit = rng.choice(
        [b"x", b"[", b'{"a":', b" ", b"9", b'"', b"\0", b"\n", b'{"crc":"00000000","n":1}\n']
    )
    text = repeats(unit, rng, 3 * MIB)
    prefix = rng.choice([b"", b'{"crc":"', b'{"crc":"00000000","n":1,"x":', lines[at - 1][:40]])
    return b"".join([*lines[:at], prefix + text + rng.choice([b"", b"\n"]), *lines[at:]])
