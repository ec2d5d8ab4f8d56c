"""The server satisfies the list of requests and answers over both transports, and the page on the service is true."""

import http.client
import importlib.util
import json
import re
import sys
from contextlib import closing
from pathlib import Path

import jsonschema
import msgspec
import pytest
from serving import in_process, over_http

from baco_like.service.messages import ERRORS, METHODS, Limits, openapi, schema

EXAMPLES = Path(__file__).parents[2] / "examples" / "service"


def load_runner():
    spec = importlib.util.spec_from_file_location("conformance", EXAMPLES / "conformance.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["conformance"] = module
    spec.loader.exec_module(module)
    return module


conformance = load_runner()


def test_lines_satisfy_the_list_and_the_schema():
    service, _ = in_process()
    shapes = schema()
    methods = set()

    def validator(name):
        return jsonschema.Draft202012Validator({**shapes, "anyOf": [{"$ref": f"#/$defs/{name}"}]})

    def send(text):
        answer = service.answer(text.encode()).decode()
        decoded, name = json.loads(answer), None
        if "result" in decoded:
            name = json.loads(text)["method"]
            methods.add(name)
            validator(f"{name}.request").validate(json.loads(text))
        validator("error" if name is None else f"{name}.result").validate(decoded)
        return answer

    assert conformance.check(send) == []
    assert methods == set(METHODS) - {"importance", "append"}, "each method has an answer"


def test_http_satisfies_the_list(tmp_path):
    with (
        over_http(folder=tmp_path) as address,
        closing(http.client.HTTPConnection(*address)) as connection,
    ):
        assert conformance.check(conformance.over_http(connection)) == []


def test_the_runner_says_what_differs(tmp_path, monkeypatch):
    case = {"about": "wrong", "send": {"a": 1}, "expect": {"result": {"n": 2, "more": "<integer>"}}}
    listed = tmp_path / "list.jsonl"
    listed.write_text(json.dumps(case) + "\n")
    monkeypatch.setattr(conformance, "LIST", listed)
    (problem,) = conformance.check(lambda text: '{"result": {"n": 3, "more": 1}}')
    assert "line 1 (wrong): answer.result.n is 3, not 2" in problem
    (problem,) = conformance.check(lambda text: '{"result": {"n": 2, "more": 1.5}}')
    assert "answer.result.more is 1.5, not <integer>" in problem


def test_openapi_names_each_message():
    described = openapi()
    names = described["components"]["schemas"]
    assert {f"{m}.{kind}" for m in METHODS for kind in ("request", "result")} <= names.keys()
    text = json.dumps(described)
    for reference in set(text.split('"$ref": "')[1:]):
        place = reference.partition('"')[0]
        assert place.removeprefix("#/components/schemas/") in names


@pytest.mark.parametrize("method", ["open", "observe"])
def test_the_schema_refuses_what_the_server_refuses(method):
    shapes = schema()
    shape = {**shapes, "anyOf": [{"$ref": f"#/$defs/{method}.request"}]}
    request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"lease": -1, "trial": -1}}
    assert not jsonschema.Draft202012Validator(shape).is_valid(request)


# ---- The page on the service is true: its session, its tables, and the limits ----


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
    "wait": "the budget has room for no more, but a pending trial has a lease and may be lost; ask again in a second",
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
