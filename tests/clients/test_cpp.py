"""The header baco_like.hpp: its JSON, its connections and its errors, under sanitizers."""

import importlib.util
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from fake_server import CONFIG, FakeHttp
from same_suggestions import DESCRIPTION, SPACE, cost, suggestions

import baco_like
from baco_like import Optimizer, cli
from baco_like.service.messages import ERRORS

HERE = Path(__file__).parent
HEADER = Path(baco_like.__file__).parent / "service" / "baco_like.hpp"
WARNINGS = [
    "-Wall",
    "-Wextra",
    "-Wpedantic",
    "-Wconversion",
    "-Wsign-conversion",
    "-Wshadow",
    "-Werror",
]
SANITIZERS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
BUILDS = {
    "gcc": ["g++", "-std=c++17"],
    "clang": ["clang++", "-std=c++20", "-fno-exceptions", "-fno-rtti"],
    "portable": ["g++", "-std=c++17", "-DBACO_LIKE_PORTABLE"],  # as where Linux's flags are missing
}


def compiler(name):
    """Return the compiler, also if only a name with a version is installed."""
    found = [path for path in (name, f"{name}-14", f"{name}-15") if shutil.which(path)]
    return found[0] if found else pytest.skip(f"needs {name}")


@pytest.fixture(
    scope="session",
    params=[
        "gcc",
        *(pytest.param(name, marks=pytest.mark.nightly) for name in ("clang", "portable")),
    ],
)
def probe(request, tmp_path_factory):
    program, *options = BUILDS[request.param]
    out = tmp_path_factory.mktemp("probe") / "probe"
    command = [compiler(program), *options, *WARNINGS, *SANITIZERS, f"-I{HEADER.parent}"]
    subprocess.run([*command, HERE / "probe.cpp", "-o", out], check=True)
    return out


def run(probe, mode, *words, lines=b"", token="", **settings):
    """Return the lines that the probe writes. The sanitizers exit with 66."""
    sanitizers = {"ASAN_OPTIONS": "exitcode=66", "UBSAN_OPTIONS": "exitcode=66"}
    environment = {**os.environ, **sanitizers, "BACO_LIKE_TOKEN": token}
    done = subprocess.run(
        [probe, mode, *map(str, words)],
        input=lines,
        capture_output=True,
        env=environment,
        check=False,
        **settings,
    )
    assert done.returncode in {0, 1}, done.stderr.decode()
    return done.stdout.split(b"\n")[:-1]


def relay(probe, *server, calls, **settings):
    """Return the answers to calls, each a method or a dictionary; and the error of the connection, if there is one."""
    calls = [{"method": call} if isinstance(call, str) else call for call in calls]
    lines = "".join(json.dumps({"params": {}, **call}) + "\n" for call in calls)
    return [
        json.loads(line) for line in run(probe, "relay", *server, lines=lines.encode(), **settings)
    ]


def fake(*words):
    return [sys.executable, "-I", "-S", HERE / "fake_server.py", *words]


def ids(answers):
    return [[trial["id"] for trial in answer["result"]["trials"]] for answer in answers]


def codes(answers):
    return [answer["error"]["code"] for answer in answers]


@pytest.mark.parametrize(
    "build", [["g++", "-std=c++20", "-fno-exceptions", "-fno-rtti"], ["clang++", "-std=c++17"]]
)
def test_the_header_has_no_warnings_alone(build):
    """The probe has the other combinations."""
    command = [compiler(build[0]), *build[1:], *WARNINGS, "-fsyntax-only", "-x", "c++", HEADER]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_an_outcome_without_a_value_does_not_compile():
    call = (
        "#include <baco_like.hpp>\n"
        "void f(baco_like::Tuner& tuner, baco_like::Trial& trial) {{ tuner.observe(trial, {}); }}"
    )
    command = ["g++", "-std=c++17", f"-I{HEADER.parent}", "-fsyntax-only", "-x", "c++", "-"]
    done = [
        subprocess.run(
            command, input=call.format(value), capture_output=True, text=True, check=False
        )
        for value in ("0", "{1.5}", "{}")
    ]
    assert [each.returncode for each in done] == [0, 0, 1]
    assert "observe" in done[-1].stderr


LOOP = """
#include <baco_like.hpp>
#include <cstdio>
int main(int, char** words) {
  auto tuner = baco_like::Tuner::connect(words[1]);
  while (auto trial = tuner.next()) tuner.observe(*trial, trial->integer<int>("tlie"));
  const bool is_seen = !!baco_like::last_error();
  const auto trial = tuner.suggest();
  std::printf("%d %d %s\\n", is_seen, !!trial, baco_like::take_error().what());
  tuner.observe(*tuner.next(), 1.5);
  std::printf("%s\\n", baco_like::take_error().what());
}
"""


def test_without_exceptions_the_first_error_ends_the_loop_and_nothing_is_recorded(tmp_path):
    program = tmp_path / "loop"
    options = ["-std=c++17", "-fno-exceptions", f"-I{HEADER.parent}", "-x", "c++", "-"]
    subprocess.run([compiler("g++"), *options, "-o", program], input=LOOP, text=True, check=True)
    with FakeHttp() as http:
        done = subprocess.run([program, http.address], capture_output=True, text=True, check=True)
        sent = [
            (request["method"], request["params"].get("value")) for request in http.run.requests
        ]
    first, second = done.stdout.splitlines()
    assert first.startswith("1 0 parameter 'tlie' has no value here")
    assert second == ""
    assert sent == [("hello", None), ("suggest", None), ("suggest", None), ("observe", 1.5)]


# ---- JSON ----

VALID = [
    "null",
    " [ 1 , -0 , 0.5 , 1e5 , 1E+5 , -1.25e-3 ] ",
    "[9223372036854775807, -9223372036854775808, 18446744073709551615, 123456789012345678901234567890]",
    "[1e308, 5e-324, 0.1, 1.7976931348623157e308]",
    r'{"a": {"b": [[], {}, "", [{"": null}]]}, "a": true}',
    r'["\"\\\/\b\f\n\r\t", "\u0000\u001f\u007f", "\u00e9\u4e2d\ud83d\ude00", "\uFFFF"]',
    r'["\ud83d", "\ude00", "\ud83dx", "\ud83d\ud83d\ude00", "\ud83d\n"]',
    '["é中😀\u2028\u007f\U0010ffff"]',
    "[" * 100 + "]" * 100,
    '"' + "x" * (1 << 20) + '"',
    '{"big": [' + ",".join(map(str, range(5_000))) + "]}",
]
INVALID = [
    "", " ", "nul", "nulll", "True", "NaN", "Infinity", "-", "+1", "01", "1.", ".5", "1e", "1e+", "0x1", "--1",
    "[", "]", "[1", "[1,", "[1,]", "[,1]", "[1 2]", "{", "{}}", '{"a"}', '{"a":}', '{"a":1,}', "{1:2}", '{"a" 1}',
    '"', '"a', '"\t"', '"\x00"', '"\\', '"\\x"', r'"\u12"', r'"\u12g4"', r'"\ud83d\u12"', "'a'", "[1]]", "1 1",
    "\ufeff1", "\u00a01", "[" * 101 + "]" * 101, "[" * 1_000_000,
]  # fmt: skip
NO_UTF8 = [
    b'"\xff"',
    b'"\xc0\x80"',
    b'"\xed\xa0\x80"',
    b'"\xf4\x90\x80\x80"',
    b'"\xe4\xb8"',
    b'"\x80"',
    b'"\xf8"',
]


def without_surrogates(value):
    if isinstance(value, str):
        return "".join("\ufffd" if "\ud800" <= c <= "\udfff" else c for c in value)
    if isinstance(value, list):
        return [without_surrogates(item) for item in value]
    if isinstance(value, dict):
        return {without_surrogates(key): without_surrogates(item) for key, item in value.items()}
    return value


def depth(value):
    items = (
        value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    )
    return 0 if items is None else 1 + max(map(depth, items), default=0)


def refuse(constant):
    raise ValueError(constant)


def reference(line):
    """Return the value by Python's own reader in a list, which is empty for an invalid line."""
    try:
        value = json.loads(line.decode(), parse_constant=refuse)
    except (ValueError, RecursionError):
        return []
    return [without_surrogates(value)] if depth(value) <= 100 else []


def assert_as_python(probe, lines):
    texts = run(probe, "json", lines=b"".join(line + b"\n" for line in lines))
    values = [[] if text == b"invalid" else [json.loads(text)] for text in texts]
    wrong = [
        line[:200]
        for line, value in zip(lines, values, strict=True)
        if repr(value) != repr(reference(line))
    ]
    assert wrong == []


def test_hard_json_is_read_and_written_as_python_does(probe):
    lines = [line.encode() for line in VALID]
    assert all(map(reference, lines))
    assert_as_python(probe, lines)


def test_what_is_no_json_is_invalid(probe):
    lines = [*(line.encode() for line in INVALID), *NO_UTF8]
    assert run(probe, "json", lines=b"".join(line + b"\n" for line in lines)) == [b"invalid"] * len(
        lines
    )


def test_mutated_json_is_judged_as_by_python(probe):
    rng = random.Random(1)
    seeds = [line.encode() for line in VALID if len(line) < 300]
    pieces = [
        *(line.encode() for line in INVALID if len(line) < 9),
        *NO_UTF8,
        b"1",
        b"\\u00e9",
        b" ",
        b",1",
        b"[]",
    ]
    lines = []
    for _ in range(6000):
        line = bytearray(rng.choice(seeds))
        for _ in range(rng.choice([1, 1, 1, 2, 3])):
            at = rng.randint(0, len(line))
            end = at + rng.choice([0, 0, 1, 1, 3])
            line[at:end] = rng.choice(
                [rng.choice(pieces), bytes([rng.randrange(256)]), b"", rng.choice(seeds)]
            )
        lines.append(bytes(line).replace(b"\n", b""))
    assert 500 < sum(bool(reference(line)) for line in lines) < 5000
    assert_as_python(probe, lines)


def test_getters_return_exactly_the_type_that_is_asked_for(probe):
    config = {
        "most": 2**63 - 1,
        "least": -(2**63),
        "beyond": 2**63,
        "small": -128,
        "whole": 2.0,
        "real": 0.1,
        "huge": 10**400,
        "yes": True,
        "text": "ä",
        "order": [2, 0, 1],
        "names": ["i", "j"],
        "mixed": [1, "j"],
        "none": None,
    }
    rows = run(probe, "types", json.dumps({"id": 1, "config": config}))
    found = {
        name: {key: value for key, value in json.loads(row).items() if not isinstance(value, dict)}
        for name, row in zip(config, rows, strict=True)
    }
    assert found == {
        "most": {"integer": 2**63 - 1, "unsigned": 2**63 - 1, "real": float(2**63)},
        "least": {"integer": -(2**63), "real": -float(2**63)},
        "beyond": {"unsigned": 2**63, "real": float(2**63)},
        "small": {"integer": -128, "int8": -128, "real": -128},
        "whole": {"real": 2},
        "real": {"real": 0.1},
        "huge": {},
        "yes": {"flag": True},
        "text": {"text": "ä"},
        "order": {"order": [2, 0, 1]},
        "names": {"texts": ["i", "j"]},
        "mixed": {},
        "none": {},
    }
    message = json.loads(rows[4])["integer"]["error"]["message"]
    assert message == "parameter 'whole' is 2.0, expected an integer in the range of this type"
    message = json.loads(rows[-1])["integer"]["error"]["message"]
    assert message.startswith("parameter 'none' has no value here: it is inactive, or misspelt")
    assert "These have one: 'most' 'least'" in message


# ---- Connections ----


def test_values_arrive_as_the_server_has_written_them(probe):
    (answer,) = relay(probe, *fake("plain"), calls=["suggest"])
    assert answer == {"result": {"trials": [{"id": 0, "config": {"tile": 0, **CONFIG}}]}}


def test_a_loop_ends_with_the_run_and_an_error_does_not_end_the_conversation(probe):
    calls = ["unknown", {"method": "observe", "params": {"trial": 7}}, *["suggest"] * 6, "best"]
    answers = relay(probe, *fake("plain"), calls=calls)
    assert codes(answers[:2]) == [-32601, -32002]
    assert ids(answers[2:7]) == [[0], [1], [2], [3], [4]]
    assert codes(answers[7:8]) == [-32004]
    assert answers[8] == {"result": {"trial": None}}


def test_a_silent_server_is_not_waited_for(probe):
    calls = [{"method": "suggest", "time_limit": 50}, {"method": "best", "time_limit": 60_000}]
    first, second = relay(probe, *fake("silent"), calls=calls)
    assert first["error"]["code"] == 3
    assert first["error"]["message"].startswith("no answer within 50 ms from ")
    assert second == {"result": {"trial": None}}


def test_a_server_that_never_stops_to_send_is_not_waited_for(probe):
    (answer,) = relay(probe, *fake("endless"), calls=[{"method": "suggest", "time_limit": 50}])
    assert answer["error"]["code"] == 3


def test_a_call_that_is_repeated_after_its_time_limit_gets_the_answer_of_the_first(probe):
    calls = [
        {"method": "suggest", "time_limit": 50},
        {"method": "suggest", "time_limit": 60_000},
        "suggest",
    ]
    late, *answers = relay(probe, *fake("slow"), calls=calls)
    assert late["error"]["code"] == 3
    assert ids(answers) == [[0], [1]]


def test_the_answer_to_another_id_is_skipped(probe):
    assert ids(relay(probe, *fake("stale"), calls=["suggest", "suggest"])) == [[0], [1]]


@pytest.mark.parametrize(
    ("mode", "code", "message"),
    [
        ("garbage", 4, "this is not a message of the protocol: Welcome to this machine"),
        ("null", -32700, "no JSON"),
        ("no code", 4, "no code"),
    ],
)
def test_a_line_without_an_id_answers_the_request(probe, mode, code, message):
    wrong, best = relay(probe, *fake(mode), calls=["suggest", "best"])
    assert wrong == {"error": {"code": code, "message": message}}
    assert best == {"result": {"trial": None}}


def test_lines_of_megabytes_arrive_in_both_directions(probe):
    text = "中" * (1 << 17)
    suggested, opened = relay(
        probe, *fake("long"), calls=["suggest", {"method": "enqueue", "params": {"text": text}}]
    )
    assert ids([suggested]) == [[0]]
    assert opened["result"]["got"]["text"] == text


def test_a_long_request_is_sent_while_an_old_answer_arrives(probe):
    """The server reads nothing before it has written the long answer, for which nobody waits any more."""
    text = "中" * (1 << 17)
    calls = [
        {"method": "suggest", "time_limit": 1},
        {"method": "enqueue", "params": {"text": text}, "time_limit": 60_000},
    ]
    late, enqueued = relay(probe, *fake("long"), calls=calls)
    assert codes([late]) == [3]
    assert enqueued["result"]["got"]["text"] == text


def test_a_server_that_dies_in_a_line_is_started_again_if_it_has_a_journal(probe, tmp_path):
    server = fake("cut", "--journal", tmp_path / "run")
    assert ids(relay(probe, *server, calls=["suggest", "suggest"])) == [[0], [1]]


def test_a_server_without_a_journal_is_not_started_again(probe):
    first, second = relay(probe, *fake("cut"), calls=["suggest", "suggest"])
    assert codes([first, second]) == [2, 2]
    assert first["error"]["message"].startswith("lost the connection to '")


@pytest.mark.parametrize(
    ("server", "message"),
    [
        (
            ["/no/such/server"],
            "cannot start or reach the command '/no/such/server' (No such file or directory)",
        ),
        (
            ["https://host"],
            "cannot start or reach the server: expected an address such as http://host:8765/run (instead of https: the "
            "address of a tunnel, such as ssh -L, or of a proxy on this machine)",
        ),
        (
            ["http://127.0.0.1:1/run"],
            "cannot start or reach http://127.0.0.1:1/run (Connection refused); tried for 2500 ms",
        ),
        (
            ["http://no..name:1/run"],
            "cannot start or reach http://no..name:1/run (the name of the host is unknown); tried for 2500 ms",
        ),
    ],
)
def test_a_server_that_cannot_be_reached_is_an_error(probe, server, message):
    assert relay(probe, *server, calls=[]) == [{"error": {"code": 1, "message": message}}]


def test_a_server_that_is_just_starting_is_waited_for(probe):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    command = [probe, "relay", f"http://localhost:{port}/run"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as client:
        time.sleep(0.5)
        with FakeHttp(port=port):
            answer, _ = client.communicate(b'{"method": "suggest", "params": {}}\n')
    assert ids([json.loads(answer)]) == [[0]]


def test_the_last_trials_of_another_program_are_waited_for(probe):
    with FakeHttp() as http:
        http.run.trials, http.run.waits, http.run.pending = 4, 1, 0
        config, _ = run(probe, "tune", http.address)
        methods = [request["method"] for request in http.run.requests]
    assert json.loads(config)["tile"] == 4
    assert methods == ["hello", "suggest", "status", "suggest"]


def test_a_forked_child_has_its_own_ids_and_leaves_the_server_to_its_parent(probe):
    with FakeHttp() as http:
        answers = [json.loads(line) for line in run(probe, "fork", http.address)]
        requests = http.run.requests
    assert [answer["trials"][0]["id"] for answer in answers] == [0, 1]
    assert len({request["id"] for request in requests}) == 3
    assert len({request["params"]["client"] for request in requests}) == 2
    child, parent = (json.loads(line) for line in run(probe, "fork", *fake("plain")))
    assert codes([child]) == [2]
    assert parent["trials"][0]["id"] == 0


def test_another_version_of_the_protocol_is_an_error(probe):
    (answer,) = relay(probe, *fake("version"), calls=["suggest"])
    assert answer["error"]["message"].startswith("the server speaks protocol 2, this header 1")


def test_a_server_that_does_not_end_is_killed_and_waited_for(probe, tmp_path):
    pid = tmp_path / "pid"
    script = f'echo $$ > {pid}; exec "$0" "$@"'
    server = ["sh", "-c", script, *fake("stubborn")]
    calls = [{"method": "suggest", "time_limit": 400}, *[{"method": "enqueue", "fill": 2**22}] * 6]
    *answers, last = relay(probe, *server, calls=calls)
    assert codes(answers) == [3] * 6
    assert codes([last]) == [2], "requests that nobody reads do not pile up"
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


def test_a_silent_server_that_does_not_end_is_soon_killed(probe):
    start = time.monotonic()
    answers = relay(probe, *fake("stubborn"), calls=[{"method": "suggest", "time_limit": 50}])
    assert codes(answers) == [3]
    assert time.monotonic() - start < 4.5


def test_each_error_of_the_protocol_has_a_code():
    (text,) = re.findall(r"enum class ErrorCode : int \{(.*?)\};", HEADER.read_text(), re.S)
    codes = {name: int(code) for name, code in re.findall(r"(\w+) = (-?\d+),", text)}
    assert {name: code for name, code in codes.items() if code < 0} == ERRORS


def test_a_descriptor_of_the_user_is_a_connection_too(probe):
    ours, theirs = socket.socketpair()
    with ours, theirs, subprocess.Popen(fake("plain"), stdin=theirs, stdout=theirs) as server:
        theirs.close()
        answers = relay(
            probe, ours.fileno(), calls=["suggest", "suggest"], pass_fds=[ours.fileno()]
        )
        ours.close()
        assert server.wait() == 0
    assert ids(answers) == [[0], [1]]


# ---- HTTP ----


def test_one_connection_carries_all_messages(probe):
    with FakeHttp(token="secret") as http:
        answers = relay(probe, http.address, calls=["suggest", "suggest"], token="secret\n")
        assert (ids(answers), len(http.connections)) == ([[0], [1]], 1)


@pytest.mark.parametrize("step", ["before", "after", "half", "busy", "idle", "chunked"])
def test_a_request_is_sent_again_after_a_lost_connection_and_counts_once(probe, step):
    with FakeHttp() as http:
        http.plan += ["", step]  # after the answer to `hello`
        assert ids(relay(probe, http.address, calls=["suggest", "suggest"])) == [[0], [1]]
        names = [request["id"] for request in http.run.requests]
    assert len(set(names)) == 3
    assert len(names) == (4 if step in {"after", "half"} else 3)


@pytest.mark.parametrize(
    ("step", "code", "message"),
    [
        ("endless head", 3, "no answer within 500 ms from "),
        ("huge chunk", None, ""),
        ("no status", 4, "HTTP status 0: abc"),
        ("huge status", 999, "HTTP status 999: abc"),
    ],
)
def test_an_answer_that_is_no_http_is_an_error(probe, step, code, message):
    with FakeHttp() as http:
        http.plan += ["", step]
        calls = [{"method": "suggest", "time_limit": 500}, {"method": "best", "time_limit": 60_000}]
        answer, best = relay(probe, http.address, calls=calls)
    if code is None:  # the request is sent again
        assert ids([answer]) == [[0]]
    else:
        assert answer["error"]["code"] == code
        assert answer["error"]["message"].startswith(message)
    assert best == {"result": {"trial": None}}


def test_each_method_sends_the_parameters_of_the_protocol(probe):
    with FakeHttp() as http:
        (line,) = run(probe, "all", http.address)
        sent = [(request["method"], request["params"]) for request in http.run.requests]
    configs = [params.pop("config")["tile"] for name, params in sent if name == "observe"]
    assert configs == [0, 1, 1, 2, 2], "those of the trials"
    assert json.loads(line) == {"best": False, "front": 3, "pending": [0, 2]}
    (name,) = {params.pop("client") for _, params in sent}
    assert name.startswith("cpp-")  # each program has a name of its own
    assert sent == [
        ("hello", {"version": 1}),
        ("suggest", {}),
        ("suggest", {"task": {"n": 512}, "n": 2}),
        ("observe", {"program": "5be1", "trial": 0, "value": 0.1}),
        ("observe", {"trial": 1, "values": [1.0, None, 1e300, -0.5]}),
        ("observe", {"seconds": 2, "trial": 1, "metrics": {"time": [0.5, 0.25], "size": [1, 2]}}),
        ("observe", {"message": 'line 1\nline \ufffd 2\t"', "trial": 2, "failed": "compile"}),
        ("observe", {"bound": 2.5, "message": "x" * 10_000, "trial": 2, "failed": "timeout"}),
        ("abandon", {"trial": 2, "reason": "no time"}),
        ("heartbeat", {"trials": [1, 2]}),
        ("enqueue", {"config": {"tile": 8}}),
        ("claim", {"config": {"tile": 16}}),
        ("propose", {"configs": [{"tile": 3}], "source": "expert", "note": "why not"}),
        ("best", {}),
        ("front", {}),
        ("status", {}),
    ]


def test_the_status_of_an_answer_without_a_message_is_in_the_error(probe):
    with FakeHttp(token="secret") as http:
        (answer,) = relay(probe, http.address, calls=[], token="wrong")
    assert answer == {"error": {"code": 401, "message": "HTTP status 401: a token, please"}}


def test_a_run_is_opened_again_by_a_server_that_does_not_know_it(probe):
    with FakeHttp() as http:
        http.run.unknown = ["suggest"]
        lines = relay(
            probe,
            http.address,
            calls=[{"method": "open", "params": {"run": "a"}, "open": True}, "suggest"],
        )
        assert ids(lines[1:]) == [[0]]
        assert [r["method"] for r in http.run.requests] == [
            "hello",
            "open",
            "suggest",
            "open",
            "suggest",
        ]


RESPONSES = [
    b"",
    b"\n",
    b"SSH-2.0-OpenSSH_9.2\r\n",
    b"HTTP/1.1\r\n\r\n",
    b"HTTP/1.1 200 OK\r\n",
    b"HTTP/1.1 200 OK\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n{}",
    b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n{}",
    b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n{}",
    b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n{}",
    b"HTTP/1.1 200 OK\r\ncontent-length:2\r\n\r\n{}",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFF\r\n{}",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-\r\n\r\n",
    b"HTTP/1.1 413 Too large\r\nContent-Length: 3\r\n\r\n\xff[{",
    b'HTTP/1.1 404 Not found\r\nContent-Length: 16\r\n\r\n{"error":"none"}',
]


def test_no_answer_of_another_server_does_harm(probe):
    with socket.create_server(("127.0.0.1", 0)) as server:
        found = []
        for response in RESPONSES:
            words = [probe, "relay", f"http://127.0.0.1:{server.getsockname()[1]}"]
            with subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
            ) as client:
                connection, _ = server.accept()
                with connection:
                    connection.recv(65536)
                    connection.sendall(response)
                found += codes([json.loads(client.stdout.readline())])
            assert client.returncode == 1
    assert found == [1, 1, 1, 4, 1, 4, 1, 1, 1, 4, 4, 1, 1, 4, 413, 404]


# ---- The server of the package ----


def served(*words):
    return [sys.executable, "-m", "baco_like", "serve", "--json", *words]


def test_a_program_in_cpp_gets_the_suggestions_of_one_in_python_bit_for_bit(probe):
    suggested = run(probe, "tune", *served(DESCRIPTION))
    assert [json.loads(line) for line in suggested] == suggestions()


def test_the_calls_belong_to_the_run_that_was_opened_last(probe, tmp_path):
    space = {"tile": {"type": "ordinal", "values": [8, 16, 32], "default": 8}}
    calls = [
        {"method": "open", "params": {"run": name, "space": space}, "open": True}
        for name in ("v1", "v2")
    ]
    answers = relay(
        probe,
        *served("--folder", tmp_path),
        calls=[*calls, "suggest", "describe", *calls[:1], "status"],
    )
    assert ids(answers[2:3]) == [[0]]
    assert answers[3]["result"]["run"] == "v2"
    assert answers[5]["result"]["pending"] == []


def outcomes(optimizer):
    """Return what a run has measured, without times."""
    return [(t.id, dict(t.config), t.outcome.repeats) for t in optimizer.trials]


def test_a_kill_of_either_side_loses_nothing_and_counts_nothing_twice(probe, tmp_path):
    tables = json.loads(DESCRIPTION.read_text())
    tables["budget"]["evaluations"], tables["optimizer"]["strategy"] = 40, "random_search"
    file, whole, cut, pid = (
        tmp_path / name for name in ("run.json", "whole.jsonl", "cut.jsonl", "pid")
    )
    file.write_text(json.dumps(tables))
    whole = Optimizer(SPACE, seed=7, budget=40, strategy="random_search")
    for _ in range(40):
        trial = whole.suggest()
        whole.observe(trial, [cost(trial), cost(trial) + 0.25])
    rng = random.Random(probe.parent.name)
    server = ["sh", "-c", f'echo $$ > {pid}; exec "$0" "$@"', *served(file, "--journal", cut)]
    for kills_server in (True, False):
        with subprocess.Popen([probe, "tune", *server], stdout=subprocess.PIPE) as client:
            for _ in range(rng.randint(1, 8)):
                client.stdout.readline()
            time.sleep(rng.uniform(0, 0.01))
            if kills_server:
                os.kill(int(pid.read_text()), signal.SIGKILL)
                client.stdout.readline()
            client.kill()
    run(probe, "tune", *server)
    assert outcomes(Optimizer.load(cut)) == outcomes(whole)


def test_the_transport_conforms_to_the_list_of_requests_and_answers(probe, tmp_path, monkeypatch):
    """But for messages that no Tuner sends: it makes the ids, and each once."""
    path = Path(baco_like.__file__).parents[1] / "examples" / "service" / "conformance.py"
    spec = importlib.util.spec_from_file_location("conformance", path)
    conformance = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(conformance)
    lines, ids = [], set()
    for line in conformance.LIST.read_text().splitlines():
        sent = json.loads(line).get("send", {})
        if sent.get("jsonrpc") == "2.0" and "params" in sent and sent.get("id") not in {None, *ids}:
            lines.append(line)
            ids.add(sent["id"])
    monkeypatch.setattr(conformance, "LIST", tmp_path / "list.jsonl")
    conformance.LIST.write_text("\n".join(lines))
    words = [probe, "relay", *served()]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as client:

        def send(line):
            request = json.loads(line)
            client.stdin.write(line.encode() + b"\n")
            client.stdin.flush()
            answer = json.loads(client.stdout.readline())
            if "error" in answer:
                (word,) = [w for w, code in ERRORS.items() if code == answer["error"]["code"]]
                answer["error"]["data"] = {"error": word}
            return json.dumps({"jsonrpc": "2.0", "id": request["id"], **answer})

        assert conformance.check(send) == []
        client.stdin.close()
    assert len(lines) > 30


def test_the_command_line_names_the_folder_of_the_header(capsys):
    assert cli.main(["serve", "--include"]) == 0
    assert Path(capsys.readouterr().out.strip()) == HEADER.parent
