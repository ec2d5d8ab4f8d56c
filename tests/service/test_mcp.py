"""The official client of the Model Context Protocol drives a whole run; nothing outside the folder is touched."""

import asyncio
import json
import os
import re
import sys
from pathlib import Path

import pytest
from serving import SPACE

from baco_like import Optimizer, __version__
from baco_like.journal.lock import sole_runner
from baco_like.service.mcp import Agent
from baco_like.service.runs import Runs

READING = {
    "runs",
    "status",
    "describe",
    "best",
    "front",
    "recommend",
    "why",
    "importance",
    "report",
}
WRITING = {"open", "suggest", "observe", "enqueue", "propose", "abandon"}


def value(config):
    return abs(config["tile"] - 32) + config["unroll"] + config["order"].index("k")


# With the official client ---------------------------------------------------------------------------------------------


WATCHED = """
import json, os, sys
log = os.open(sys.argv.pop(1), os.O_WRONLY | os.O_CREAT | os.O_APPEND)

def note(event, args):
    if event.partition(".")[0] in ("open", "os", "shutil", "socket", "subprocess", "pty"):
        plain = [a if isinstance(a, int) else os.fsdecode(a) if isinstance(a, str | bytes) else None for a in args]
        os.write(log, (json.dumps([event, plain]) + "\\n").encode())

sys.addaudithook(note)
from baco_like.cli import main
sys.exit(main(["mcp", *sys.argv[1:]]))
"""
"""``baco-like mcp`` that logs the files and programs that it uses."""


@pytest.mark.parametrize("mode", [pytest.param("legacy", marks=pytest.mark.nightly), "auto"])
def test_an_agent_tunes_with_the_official_client(mode, tmp_path):
    mcp = pytest.importorskip("mcp")
    folder, log = tmp_path / "runs", tmp_path / "log"
    server = mcp.StdioServerParameters(
        command=sys.executable,
        args=["-B", "-c", WATCHED, str(log), "--folder", str(folder), "--write"],
        env=dict(os.environ),
        cwd=str(tmp_path),
    )

    async def drive():
        async with mcp.Client(server, mode=mode) as client:

            async def call(name, **arguments):
                result = await client.call_tool(name, arguments)
                return result.is_error, result.content[0].text

            async def result(name, **arguments):
                is_error, text = await call(name, **arguments)
                assert not is_error, text
                return json.loads(text)

            assert client.server_info.version == __version__
            tools = (await client.list_tools()).tools
            assert {tool.name for tool in tools} == READING | WRITING
            opened = await result(
                "open",
                run="blur",
                space=SPACE,
                budget={"evaluations": 8},
                optimizer={"strategy": "random_search"},
            )
            assert not opened["resumed"]
            idea = {"tile": 32, "order": ["k", "i", "j"], "unroll": 1}
            await result("enqueue", config=idea)
            (answer,) = (await result("propose", configs=[idea], source="me"))["answers"]
            assert answer["reason"] == "enqueued: it is suggested next"
            assert answer["nearest"] != idea
            trials = (await result("suggest"))["trials"]
            assert trials[0]["config"] == idea
            is_error, text = await call("observe", trial=trials[0]["id"])
            assert is_error
            assert "give 'value', 'values'" in text
            await result("observe", trial=trials[0]["id"], failed="compile", message="no such pass")
            for _ in range(7):
                ((trial),) = (await result("suggest"))["trials"]
                measured = value(trial["config"])
                await result("observe", trial=trial["id"], values=[measured, measured + 0.1])
            is_error, text = await call("suggest")
            assert is_error
            assert "the run has ended: 8 evaluations" in text
            if mode == "legacy":
                return
            best = (await result("best"))["trial"]
            assert (await result("why", trial=best["id"]))["why"]
            assert len((await result("importance"))["effects"]) == 3
            assert (await result("front"))["trials"]
            assert (await result("describe"))["size"] == 4 * 6 * 8
            assert (await result("runs")) == {"runs": ["blur"]}
            is_error, text = await call("report", html=True)
            assert not is_error, text
            assert text.endswith("The page is in blur.html.")
            assert "no such pass" in text
            assert str(tmp_path) not in text
            resources = (await client.list_resources()).resources
            uris = [str(resource.uri) for resource in resources]
            assert uris == ["baco-like://llms.txt", "baco-like://runs/blur"]
            for uri, part in zip(uris, ("Never guess a value", "compile 1"), strict=True):
                content = (await client.read_resource(uri)).contents[0]
                assert part in content.text

    asyncio.run(drive())
    page = set() if mode == "legacy" else {"blur.html"}
    assert {file.name for file in folder.iterdir()} == {"blur.jsonl", "blur.open.json", *page}
    check_touched(log, folder)


SYSTEM = ("/proc/", "/sys/", "/etc/", "/dev/", "/usr/", "/lib/")
"""Where the interpreter and its libraries read about the machine."""


def check_touched(log, folder):
    """Check that files are written in the folder only, and read only there and where programs are installed."""
    roots = [sys.prefix, sys.base_prefix, *(path for path in sys.path if path)]
    written = set()
    for event, args in map(json.loads, log.read_text().splitlines()):
        if event == "subprocess.Popen":
            assert args[0] == "uname", args  # `platform` describes the machine
            continue
        assert event.partition(".")[0] in ("open", "os"), (event, args)
        if event == "open" and isinstance(args[0], str) and args[0] != "/dev/null":
            path, flags = os.path.realpath(args[0]), args[2]
            is_read = flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC) == 0
            if not Path(path).is_relative_to(folder):
                assert is_read, (event, args)
                assert path.startswith((*SYSTEM, *map(os.path.realpath, roots))), (event, args)
            elif not is_read:
                written.add(Path(path).name.partition(".")[0])
        elif event not in ("open", "os.listdir", "os.scandir", "os.putenv", "os.unsetenv"):
            paths = [arg for arg in args if isinstance(arg, str)]
            assert all(Path(path).is_relative_to(folder) for path in paths), (event, args)
    assert written == {"blur"}


def test_without_write_an_agent_only_reads(tmp_path):
    """It reads a run that another process holds, also in a folder of ``baco-like tune``."""
    tuned = tmp_path / "job"
    tuned.mkdir()
    optimizer = Optimizer({"x": [1, 2, 3]}, storage=tuned / "run.jsonl", strategy="random_search")
    optimizer.observe(optimizer.suggest(), 2.5)
    (tmp_path / "outside").symlink_to("/etc")
    with sole_runner(tuned / "run.jsonl"):
        ask = agent(tmp_path)
        tools = {tool["name"] for tool in ask("tools/list")["tools"]}
        assert tools == READING
        assert json.loads(call(ask, "runs")) == {"runs": ["job"]}
        status = json.loads(call(ask, "status", run="job"))
        assert (status["observed"], status["best"]["value"]) == (1, 2.5)
        optimizer.observe(optimizer.suggest(), 1.5)
        assert json.loads(call(ask, "best", run="job"))["trial"]["value"] == 1.5
        assert "1.5" in call(ask, "report", run="job")
        assert "with --write" in call(ask, "report", run="job", html=True, fails=True)
        for tool in WRITING:
            error = ask("tools/call", fails=True, name=tool, arguments={"run": "job"})
            assert f"there is no tool '{tool}'" in error["message"]
            assert "--write" in error["message"]
    files = {path.name for path in tmp_path.rglob("*") if path.is_file()}
    assert files - {"run.jsonl.lock"} == {"run.jsonl"}


@pytest.mark.parametrize(
    "run", ["../other", "/etc/passwd", "linked", "escape", "no", "a/b", "..", ""]
)
def test_no_name_leads_out_of_the_folder(run, tmp_path):
    folder, other = tmp_path / "runs", tmp_path / "other"
    for path in (folder, other):
        path.mkdir()
        Optimizer({"x": [1, 2]}, storage=path / "run.jsonl", strategy="random_search")
    (other / "run.jsonl").rename(tmp_path / "other.jsonl")
    (folder / "linked.jsonl").symlink_to(tmp_path / "other.jsonl")
    (folder / "escape").symlink_to(other)
    (folder / "escape.jsonl").symlink_to(tmp_path / "new.jsonl")
    ask = agent(folder, writes=True)
    for tool in (*READING - {"runs"}, *WRITING):
        if tool == "open" and run == "no":
            continue
        arguments = {"html": True} if tool == "report" else {}
        arguments |= {"space": SPACE} if tool == "open" and run else {}
        call(ask, tool, run=run, fails=True, **arguments)
    assert not (tmp_path / "new.jsonl").exists()
    error = ask("resources/read", fails=True, uri=f"baco-like://runs/{run}")
    assert re.search("there is no resource|is a link that leaves", error["message"])


@pytest.mark.parametrize(
    "tables",
    [
        {"evaluator": {"kind": "command", "run": "touch owned"}},
        {"warm_start": {"file": "/etc/passwd"}},
        {"constraints": {"table": "/etc/passwd"}},
        {"optimizer": {"strategy": "os:system"}},
    ],
)
def test_a_run_names_no_file_and_no_program(tables, tmp_path):
    ask = agent(tmp_path, writes=True)
    call(ask, "open", run="a", space=SPACE, fails=True, **tables)
    assert list(tmp_path.iterdir()) == []


def test_versions(tmp_path):
    ask = agent(tmp_path)
    for wanted, given in (
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25",) * 2,
        ("1999", "2025-11-25"),
    ):
        begun = ask("initialize", protocolVersion=wanted, capabilities={}, clientInfo={})
        assert begun["protocolVersion"] == given
        assert begun["serverInfo"] == {"name": "baco-like", "version": __version__}
    key = "io.modelcontextprotocol/protocolVersion"
    found = ask("server/discover", _meta={key: "2026-07-28"})
    assert found["supportedVersions"][-1] == "2026-07-28"
    assert found["resultType"] == "complete"
    error = ask("tools/list", fails=True, _meta={key: "2030-01-01"})
    assert error["code"] == -32022
    assert error["data"]["supported"] == found["supportedVersions"]
    assert ask("ping") == {}


def test_messages_that_are_no_requests(tmp_path):
    tuner = Agent(Runs(tmp_path, reads_only=True), tmp_path, writes=False)
    assert tuner.answer(b'{"jsonrpc":"2.0","method":"notifications/initialized"}') is None
    for line, code in (
        (b"{", -32700),
        (b"[]", -32600),
        (b"\xff", -32700),
        (b'{"jsonrpc":"2.0","id":1,"method":"prompts/list"}', -32601),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":[]}', -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"rm"}}', -32602),
    ):
        assert json.loads(tuner.answer(line))["error"]["code"] == code


@pytest.mark.parametrize("arguments", [[1], "run", 5])
def test_arguments_that_are_no_object(tmp_path, arguments):
    result = agent(tmp_path)("tools/call", name="status", arguments=arguments)
    assert result["isError"]
    assert "expected an object" in result["content"][0]["text"]


def test_an_answer_is_bounded(tmp_path):
    ask = agent(tmp_path, writes=True)
    call(ask, "open", run="big", space=SPACE, optimizer={"strategy": "random_search"})
    text = call(ask, "suggest", run="big", n=150)
    text += call(ask, "status", run="big")
    text = call(ask, "suggest", run="big", n=42)
    assert len(text) < 20_100
    assert len(text) < 20_000 or "characters; ask for less]" in text


def agent(folder, writes=False):
    """Return a function that sends a request to an agent's server and returns the result, or the error."""
    tuner = Agent(Runs(folder, reads_only=not writes), folder, writes)

    def ask(method, fails=False, **params):
        request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return json.loads(tuner.answer(json.dumps(request).encode()))[
            "error" if fails else "result"
        ]

    return ask


def call(ask, tool, fails=False, **arguments):
    """Return the text of a tool, which must succeed or fail."""
    result = ask("tools/call", name=tool, arguments=arguments)
    assert result["isError"] == fails, result
    return result["content"][0]["text"]
