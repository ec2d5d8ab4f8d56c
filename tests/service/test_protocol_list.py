"""The server satisfies the list of requests and answers over both transports, and its answers fit the JSON Schema."""

import http.client
import importlib.util
import json
import sys
from contextlib import closing
from pathlib import Path

import jsonschema
import pytest
from serving import in_process, over_http

from baco_like.service.messages import METHODS, openapi, schema

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
