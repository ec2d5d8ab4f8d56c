"""The page on the service is true: its session, its tables, and the limits."""

import json
import re
from pathlib import Path

import msgspec
from serving import in_process

from baco_like.service.messages import ERRORS, METHODS, Limits

PAGE = Path(__file__).parents[2] / "docs" / "any_language.md"
COMMON = ("run", "client")
EXPLAINED = {
    "parse": "not JSON in one line, or not UTF-8",
    "request": "not a request of JSON-RPC 2.0, a batch, or without an id",
    "method": "there is no such method",
    "params": "a parameter is unknown, missing or wrong",
    "internal": "a bug of the server; its standard error has more",
    "config": "the configuration does not belong to the space, or is observed already",
    "trial": "the trial is unknown or not pending, or its outcome is wrong",
    "exhausted": "every feasible configuration is observed or pending",
    "ended": "the budget is spent, or another stopping rule ends the run",
    "space": "the space or the task is wrong",
    "journal": "the run is described otherwise, or its journal cannot be used",
    "no_run": "the run is not open; send `open`",
    "limit": "a limit of the server is reached",
    "id_reused": "the client has used the id for another request",
    "conflict": "others have added events; read them and try again",
}


def fields(kind, skip=()):
    """Return the names of the fields of a message, with a question mark for those that may be left out."""
    found = [f for f in msgspec.structs.fields(kind) if f.name not in skip]
    return ", ".join(f"`{f.encode_name}`{'' if f.required else '?'}" for f in found)


def message_table():
    rows = ["| method | parameters | result | meaning |", "|---|---|---|---|"]
    for name, method in METHODS.items():
        cells = fields(method.params, COMMON), fields(method.result), method.meaning
        rows.append(f"| `{name}` | {' | '.join(cells)} |")
    return "\n".join(rows)


def error_table():
    rows = ["| code | word | meaning |", "|---|---|---|"]
    rows += [f"| {code} | `{word}` | {EXPLAINED[word]} |" for word, code in ERRORS.items()]
    return "\n".join(rows)


def test_the_tables_are_those_of_the_messages():
    page = PAGE.read_text()
    assert message_table() in page, message_table()
    assert error_table() in page, error_table()


def test_the_limits():
    table = PAGE.read_text().partition("## Limits")[2].partition("## ")[0]
    assert re.findall(r"^\| `(\w+)`", table, re.M) == list(Limits.__struct_fields__)


def test_the_session():
    (session,) = re.findall(r"```text\n(.*?)```", PAGE.read_text(), re.S)
    service, _ = in_process()
    lines = session.splitlines()
    for request, expected in zip(lines[::2], lines[1::2], strict=True):
        assert request.startswith("C> ")
        assert expected.startswith("S> ")
        answer = service.answer(request[3:].encode()).decode()
        if expected.endswith("..."):
            assert answer.startswith(expected[3:-3])
        else:
            assert json.loads(answer) == json.loads(expected[3:])
