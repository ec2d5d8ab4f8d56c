"""``baco-like mcp``: the Model Context Protocol over standard input and output, for agents that tune.

A tool is a method of the service with the same name and parameters; `Service.answer` does all the work.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET

from baco_like import __version__
from baco_like.running.findings import recommend_by_task
from baco_like.running.journal_view import JournalView, describe_run
from baco_like.running.sentences import tell_recommendation
from baco_like.service.messages import METHODS, Params, ServiceError
from baco_like.service.methods import Service, read_request
from baco_like.service.runs import Runs

_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""Versions of the protocol that begin with ``initialize``."""

_STATELESS = "2026-07-28"
"""The version of the protocol that has no beginning: each request names its version."""

_VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
_SERVER_KEY = "io.modelcontextprotocol/serverInfo"
_UNSUPPORTED = -32022
"""Code of the error for a request in another version."""

_READING = ("status", "describe", "best", "front", "recommend", "why", "importance")
_WRITING = ("open", "suggest", "observe", "enqueue", "propose", "abandon")
"""The methods that are tools, those of the second kind only where writing is allowed."""

_MOST_CHARACTERS = 20_000
"""Largest text of an answer; the rest is cut off."""

_GUIDE = Path(__file__).with_name("llms.txt")

_GUIDE_URI, _RUN_URI = "baco-like://llms.txt", "baco-like://runs/"

_INSTRUCTIONS = (
    "Tune the parameters of a program: open a run with a space, then repeat: suggest, measure the configuration, "
    "observe the value or the failure. Never invent a value. The resource baco-like://llms.txt explains it."
)


class ReportOf(Params):
    """Describe a run in words: status, best trials, failures, recommendation."""

    html: bool = False


class NoParams(msgspec.Struct, forbid_unknown_fields=True):
    """List the runs in the folder."""


class Agent:
    """Answers the messages of one agent.

    Args:
        runs: The runs; they have a folder.
        folder: The folder. Nothing outside it is read or written, except files of this package.
        writes: Whether the agent may change runs and write reports.
    """

    def __init__(self, runs: Runs, folder: Path, writes: bool) -> None:
        self.runs, self._folder, self._writes = runs, folder, writes
        self._service = Service(runs)
        self._client, self._numbers = f"agent-{secrets.token_hex(6)}", count(1)
        names = (*_READING, *(_WRITING if writes else ()))
        self._tools: Mapping[str, type[msgspec.Struct]] = {
            "runs": NoParams,
            **{name: METHODS[name].params for name in names},
            "report": ReportOf,
        }
        self._methods: Mapping[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
            "initialize": self._initialize,
            "server/discover": lambda params: {
                "supportedVersions": [*_VERSIONS, _STATELESS],
                **_describe_server(),
            },
            "ping": lambda params: {},
            "tools/list": lambda params: {"tools": list(map(self._describe_tool, self._tools))},
            "tools/call": self._call_tool,
            "resources/list": lambda params: {"resources": self._list_resources()},
            "resources/templates/list": lambda params: {"resourceTemplates": []},
            "resources/read": self._read_resource,
        }

    def answer(self, line: bytes) -> bytes | None:
        """Return the answer to a message, as JSON without a line end; None for a notification."""
        request_id: str | int | None = None
        try:
            request = read_request(line, self.runs.limits)
            if request.id is UNSET or request.id is None:
                return None
            request_id = request.id
            params = msgspec.json.decode(request.params, type=dict[str, Any])
            content: dict[str, Any] = {"result": self._respond(request.method, params)}
        except _UnsupportedVersion as error:
            data = {"supported": [*_VERSIONS, _STATELESS], "requested": str(error)}
            message = f"version {error} is not supported"
            content = {"error": {"code": _UNSUPPORTED, "message": message, "data": data}}
        except Exception as error:  # an error never ends the conversation
            return self._service.describe_error(error, request_id)
        return msgspec.json.encode({"jsonrpc": "2.0", "id": request_id, **content})

    def _respond(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the result of a request.

        Raises:
            ServiceError: The method does not exist, or a parameter is wrong.
        """
        if method not in self._methods:
            raise ServiceError("method", f"there is no method {method!r:.60}")
        meta = params.get("_meta")
        version = meta.get(_VERSION_KEY) if isinstance(meta, dict) else None
        if version is None:
            return self._methods[method](params)
        if version != _STATELESS:
            raise _UnsupportedVersion(str(version)[:60])
        result = {"resultType": "complete", **self._methods[method](params)}
        if method != "tools/call":
            result |= {"ttlMs": 0, "cacheScope": "private"}
        return {**result, "_meta": {_SERVER_KEY: _server()}}

    def _initialize(self, params: Mapping[str, Any]) -> dict[str, Any]:
        wanted = params.get("protocolVersion")
        version = wanted if wanted in _VERSIONS else _VERSIONS[-1]
        return {"protocolVersion": version, "serverInfo": _server(), **_describe_server()}

    # Tools ------------------------------------------------------------------------------------------------------------

    def _describe_tool(self, name: str) -> dict[str, Any]:
        kind = self._tools[name]
        _, definitions = msgspec.json.schema_components([kind])
        schema = definitions.pop(kind.__name__)
        schema["properties"].pop("client", None)
        description = METHODS[name].meaning if name in METHODS else schema["description"]
        hints = {"readOnlyHint": name not in _WRITING, "openWorldHint": False}
        if name in _WRITING:
            hints["destructiveHint"] = False
        return {
            "name": name,
            "description": f"{description[0].upper()}{description[1:].rstrip('.')}.",
            "inputSchema": {**schema, "$defs": definitions} if definitions else schema,
            "annotations": hints,
        }

    def _call_tool(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the content of an answer; an error of the tool is content too, so that the agent can react."""
        name, given = str(params.get("name")), params.get("arguments") or {}
        if name not in self._tools:
            raise ServiceError("params", f"there is no tool {name!r:.60}; {self._list_tools()}")
        try:
            if not isinstance(given, dict):
                raise ServiceError("params", f"arguments = {given!r:.60}: expected an object")
            if name in METHODS:
                text = self._call_method(name, given)
            else:
                arguments = msgspec.convert(given, type=self._tools[name])
                text = self._report(arguments) if isinstance(arguments, ReportOf) else self._names()
        except Exception as error:
            answer = json.loads(self._service.describe_error(error, None))
            return {"content": [_text(answer["error"]["message"])], "isError": True}
        return {"content": [_text(text)], "isError": False}

    def _list_tools(self) -> str:
        missing = "" if self._writes else "; start baco-like mcp with --write to change runs"
        return f"the tools are {', '.join(self._tools)}{missing}"

    def _call_method(self, name: str, given: Mapping[str, Any]) -> str:
        """Return the result of a method of the service as JSON.

        Raises:
            ServiceError: The service answers with an error.
        """
        request = {
            "jsonrpc": "2.0",
            "id": f"{self._client}-{next(self._numbers)}",
            "method": name,
            "params": {**given, "client": self._client},
        }
        answer = json.loads(self._service.answer(msgspec.json.encode(request)))
        if "error" in answer:
            raise ServiceError(answer["error"]["data"]["error"], answer["error"]["message"])
        return json.dumps(answer["result"])

    def _names(self) -> str:
        return json.dumps({"runs": self.runs.list_names()})

    def _report(self, params: ReportOf) -> str:
        """Return the report of a run as text, and on request write it as a page too.

        Raises:
            ServiceError: The agent must not write a page.
        """
        path = self.runs.find(params.run).path
        assert path is not None
        view = JournalView(path, with_constraints=True)
        note = ""
        if params.html:
            if not self._writes:
                raise ServiceError(
                    "params", "html: start baco-like mcp with --write to write a page"
                )
            from baco_like.reporting.report import write_report

            target = path.with_suffix(".html")
            write_report(path, target)
            note = f"\n\nThe page is in {target.relative_to(self._folder)}."
        lines = [describe_run(view, 5), *tell_recommendation(recommend_by_task(view))]
        return "\n".join(lines).replace(f"{self._folder}/", "") + note

    # Resources --------------------------------------------------------------------------------------------------------

    def _list_resources(self) -> list[dict[str, Any]]:
        uris = [_GUIDE_URI, *(_RUN_URI + name for name in self.runs.list_names())]
        return [
            {"uri": uri, "name": uri.rpartition("/")[2], "mimeType": "text/plain"} for uri in uris
        ]

    def _read_resource(self, params: Mapping[str, Any]) -> dict[str, Any]:
        uri = str(params.get("uri"))
        name = uri.removeprefix(_RUN_URI)
        if uri == _GUIDE_URI:
            text = _GUIDE.read_text(encoding="utf-8")
        elif name != uri and name in self.runs.list_names():
            text = self._report(ReportOf(run=name))
        else:
            raise ServiceError("params", f"there is no resource {uri!r:.100}")
        return {"contents": [{"uri": uri, "mimeType": "text/plain", "text": _cut(text)}]}


class _UnsupportedVersion(Exception):
    """A request in a version of the protocol that is not known."""


def _server() -> dict[str, str]:
    return {"name": "baco-like", "version": __version__}


def _describe_server() -> dict[str, Any]:
    return {"capabilities": {"tools": {}, "resources": {}}, "instructions": _INSTRUCTIONS}


def _text(text: str) -> dict[str, str]:
    return {"type": "text", "text": _cut(text)}


def _cut(text: str) -> str:
    """Return a text, cut off where it is too long for an agent."""
    if len(text) <= _MOST_CHARACTERS:
        return text
    cut = f" [cut: {_MOST_CHARACTERS} of {len(text)} characters; ask for less]"
    return text[:_MOST_CHARACTERS] + cut
