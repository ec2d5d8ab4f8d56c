"""Requests that are wrong, too large or hostile: each gets an error, and the conversation continues."""

import io
import json
import random
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from serving import SPACE, TABLES, in_process, line, new_id

from baco_like import Optimizer, Space
from baco_like.journal.lock import sole_runner
from baco_like.service import runs
from baco_like.service.messages import ERRORS, METHODS, Limits
from baco_like.service.runs import Description
from baco_like.service.stdio import serve_lines

VALID = [
    line("hello"),
    line("open", run="a", **TABLES),
    line("suggest", run="a", n=2, client="node7"),
    line(
        "observe",
        run="a",
        trial=0,
        values=[1.5, 2],
        metrics={"size": 40, "t": [1, 2]},
        extra={"k": [1, {}]},
    ),
    line(
        "observe", run="a", config={"tile": 8, "order": ["i", "j", "k"], "unroll": 1}, value=-1e300
    ),
    line("claim", run="a", config={"tile": 8, "order": ["k", "j", "i"], "unroll": 8}),
    line("events", run="a", after=1, most=3),
    line("append", run="a", event={"event": "abandoned", "id": 3, "reason": "x"}, after=4),
    line("heartbeat", run="a", trials=[0, 1, 2]),
    line("recommend", run="a", weights={"value": 1}, limits=["size <= 3"]),
]
WORDS = [
    "null",
    "true",
    "-1",
    "1e999",
    "9" * 400,
    '"\\ud800"',
    "[]",
    "{}",
    '"\\u0000"',
    "[" * 40,
    "{" * 2000,
    "1e5",
]


VALUES = [
    None,
    True,
    -1,
    0,
    2**63,
    1e300,
    "",
    "\0",
    "a",
    "é" * 300,
    [],
    {},
    [[]],
    {"a": {"b": [1]}},
    ["i", "j"],
]


def places(value, path=()):
    """Yield the paths of all parts of a message."""
    yield path
    lists = enumerate(value) if isinstance(value, list) else ()
    for key, entry in value.items() if isinstance(value, dict) else lists:
        yield from places(entry, (*path, key))


def replace_part(text, rng):
    """Return a message with another value in one place."""
    message = json.loads(text)
    *path, last = rng.choice(list(places(message))[1:])
    inner = message
    for key in path:
        inner = inner[key]
    inner[last] = rng.choice(VALUES)
    if isinstance(inner, dict) and rng.random() < 0.2:
        inner[rng.choice(["run", "extra", "n", "\0", "version"])] = inner.pop(last)
    return json.dumps(message)


def mutate(text, rng):
    """Return a message with a few changes."""
    if rng.random() < 0.7:
        return replace_part(text, rng)
    for _ in range(rng.randint(1, 3)):
        place, other = rng.randrange(len(text) + 1), rng.randrange(len(text) + 1)
        low, high = min(place, other), min(max(place, other), place + 30)
        text = rng.choice(
            [
                text[:low] + text[high:],
                text[:place] + text[low:high] + text[place:],
                text[:place] + rng.choice(WORDS) + text[place + 1 :],
                text[:place] + chr(rng.choice([0, 34, 92, 123, 233, 0x1F600])) + text[place + 1 :],
                text.replace(rng.choice(['"a"', "0", "1", '"i"', "}", ":"]), rng.choice(WORDS), 1),
            ]
        )
    return text


def test_mutated_messages_get_answers(capsys):
    service, client = in_process(limits=Limits(most_runs=5))
    rng = random.Random(11)
    words = set()
    client.call("open", run="a", **TABLES)
    for _ in range(3000):
        valid = re.sub(r'"t-\d+"', json.dumps(new_id()), rng.choice(VALID))
        text = mutate(valid, rng).encode("utf-8", "surrogatepass")
        answer = json.loads(service.answer(text))
        assert answer["jsonrpc"] == "2.0"
        assert ("result" in answer) != ("error" in answer)
        if "error" in answer:
            word = answer["error"]["data"]["error"]
            words.add(word)
            assert answer["error"]["code"] == ERRORS[word]
            assert len(answer["error"]["message"]) <= 2000
            assert word != "internal", (text, capsys.readouterr().err[-3000:])
    assert {"parse", "request", "params", "method", "config"} <= words
    assert client.call("status", run="a")["stop"] is None


def test_bytes_that_are_no_text():
    service, _ = in_process()
    assert json.loads(service.answer(b'{"a": "\xff"}'))["error"]["data"]["error"] == "parse"


def lines_of(text, **limits):
    """Return the answers to a stream."""
    service, _ = in_process(limits=Limits(**limits))
    outgoing = io.BytesIO()
    serve_lines(service, io.BytesIO(text), outgoing)
    return [json.loads(each) for each in outgoing.getvalue().splitlines()]


def test_a_line_that_is_too_long_is_skipped():
    hello = line("hello").encode()
    long = hello[:-1] + b" " * 200_000 + b"}"
    answers = lines_of(hello + b"\n" + long + b"\r\n\n" + hello + b"\n", most_bytes=1000)
    assert ["result" in answer for answer in answers] == [True, False, True]
    assert answers[1]["error"]["data"]["error"] == "limit"


def test_a_line_of_exactly_the_limit_is_read():
    hello = line("hello").encode()
    padded = hello + b" " * (1000 - len(hello))
    assert "result" in lines_of(padded + b"\n", most_bytes=1000)[0]
    assert "error" in lines_of(padded + b" x\n", most_bytes=1000)[0]


def test_a_line_that_was_cut_off_gets_no_answer():
    assert lines_of(line("hello").encode()) == []


def test_a_closed_pipe_ends_the_server():
    class Closed(io.RawIOBase):
        def write(self, data):
            raise BrokenPipeError

    service, _ = in_process()
    serve_lines(service, io.BytesIO(line("hello").encode() + b"\n"), Closed())


@pytest.mark.parametrize(
    ("word", "named", "params"),
    [
        ("params", "evaluator", {"evaluator": {"kind": "command", "run": "rm"}}),
        ("params", "warm_start", {"warm_start": {"file": "/etc/passwd"}}),
        ("params", "flags", {"flags": {"compiler": "gcc"}}),
        ("params", "run", {"run": "../../etc"}),
        ("params", "run", {"run": ""}),
        ("params", "run", {"run": "a\n"}),
        ("params", "context", {"context": {"[evaluator] run": "rm -rf x"}}),
        ("params", "context", {"context": {"folder": "/tmp"}}),
        ("params", "threads", {"optimizer": {"threads": 64}}),
        ("params", "proposers", {"optimizer": {"proposers": ["touch file"]}}),
        ("params", "experience", {"optimizer": {"experience": "runs"}}),
        ("params", "strategy", {"optimizer": {"strategy": "os:system"}}),
        (
            "params",
            "population",
            {"optimizer": {"strategy": "genetic_algorithm", "populations": 3}},
        ),
        (
            "limit",
            "population",
            {"optimizer": {"strategy": "genetic_algorithm", "population": 10**9}},
        ),
        ("limit", "ahead", {"optimizer": {"ahead": 10**6}}),
        ("params", "lease", {"lease": 0}),
        ("params", "evaluations", {"budget": {"evaluations": 0}}),
        ("params", "needs 'evaluations'", {"budget": {"target": 1.0}}),
        (
            "space",
            "callable",
            {"space": {"version": 1, "parameters": SPACE, "constraints": [{"callable": "f"}]}},
        ),
        (
            "params",
            "tasks",
            {"space": Space({"x": [1, 2]}).to_dict(), "tasks": {"list": ["a", "b"]}},
        ),
        ("limit", "3 pa", {"space": {"x": {"type": "ordinal", "values": list(range(10_000))}}}),
    ],
)
def test_what_a_client_may_not_describe(tmp_path, word, named, params):
    _, client = in_process(tmp_path)
    found, message = client.error("open", **{"space": SPACE, **params})
    assert found == word, message
    assert named.split()[0] in message or word == "limit"
    assert list(tmp_path.iterdir()) == [], "nothing is written"


def test_an_idle_run_makes_room_and_is_opened_again_on_demand(tmp_path, monkeypatch):
    monkeypatch.setattr(runs, "_IDLE", 0.0)
    service, client = in_process(tmp_path, limits=Limits(most_runs=2))
    for name in "abc":
        client.call("open", run=name, **TABLES)
        client.call("suggest", name, run=name)
    assert sorted(service.runs._runs) == ["b", "c"]
    with sole_runner(tmp_path / "a.jsonl"):  # another process may have it now
        pass
    assert client.error("status")[0] == "no_run", "it is not clear which of the three is meant"
    first = client.call("suggest", "a", run="a")
    assert first["trials"] == client.call("status", run="a")["pending"], "the same answer as before"
    assert sorted(service.runs._runs) == ["a", "c"]
    with service.runs.using("a"), service.runs.using("c"):
        assert client.error("status", run="b")[0] == "limit"
    assert client.call("status", run="b")["observed"] == 0


def test_a_run_with_a_changed_space_takes_over_the_results(tmp_path):
    _, client = in_process(tmp_path)
    client.call("open", run="old", **TABLES)
    configs = [t["config"] for t in client.call("suggest", run="old", n=3)["trials"]]
    for i, config in enumerate(configs):
        client.call("observe", run="old", config=config, value=float(i))
    wider = {**SPACE, "unroll": {"type": "integer", "low": 1, "high": 16}}
    tables = {**TABLES, "space": wider, "warm_start": "old"}
    for expected in (False, True):  # the second time it exists
        opened = client.call("open", run="new", **tables)
        assert (opened["observed"], opened["resumed"]) == (3, expected)
    assert client.call("best", run="new")["trial"]["config"] == configs[0]
    assert client.call("status", run="old")["observed"] == 3
    assert client.error("open", run="third", space=SPACE, warm_start="missing")[0] == "params"
    _, client = in_process()
    assert client.error("open", space=SPACE, warm_start="old")[0] == "params"


def test_limits_of_a_server(tmp_path):
    service, client = in_process(tmp_path, limits=Limits(most_runs=2, most_pending=3))
    client.call("open", run="a", **TABLES)
    client.call("open", run="b", **TABLES)
    assert client.error("open", run="c", **TABLES)[0] == "limit"
    assert client.error("suggest", run="a", n=4)[0] == "limit"
    client.call("suggest", run="a", n=3)
    assert client.error("suggest", run="a")[0] == "limit"
    assert (
        client.error("claim", run="a", config={"tile": 8, "order": ["k", "j", "i"], "unroll": 8})[0]
        == "limit"
    )
    client.call("abandon", run="a", trial=1)
    client.call("suggest", run="a")
    service.runs.close()


def test_pending_trials_of_a_large_space_are_fewer():
    _, client = in_process()
    space = {f"p{i}": {"type": "integer", "low": 1, "high": 9} for i in range(500)}
    client.call("open", space=space, optimizer={"strategy": "random_search"})
    word, message = client.error("suggest", n=5000)
    assert word == "limit"
    assert int(message.partition("allows ")[2].partition(";")[0]) < 4000


def test_events_are_cut_where_they_are_large(tmp_path):
    service, client = in_process(tmp_path)
    client.call("open", run="a", **TABLES)
    for _ in range(20):
        (trial,) = client.call("suggest", run="a")["trials"]
        client.call("observe", run="a", trial=trial["id"], value=1, message="x" * 1_000_000)
    whole, after, parts = client.call("status", run="a")["observed"], 0, 0
    observed = 0
    while (found := client.call("events", run="a", after=after))["events"]:
        after, parts = found["next"], parts + 1
        observed += sum(event["event"] == "observed" for event in found["events"])
    assert (observed, found["end"]) == (whole, after)
    assert parts == 2
    service.runs.close()


def test_a_space_that_takes_long_holds_up_no_other_run(tmp_path, monkeypatch):
    service, client = in_process(tmp_path)
    client.call("open", run="a", **TABLES)
    service.runs.close()
    service, client = in_process(tmp_path)
    begun, go_on, read = threading.Event(), threading.Event(), Description.read

    def slow(tables):
        begun.set()
        assert go_on.wait(20)
        return read(tables)

    with monkeypatch.context() as patch, ThreadPoolExecutor() as pool:
        patch.setattr(Description, "read", slow)
        hard = pool.submit(client.call, "open", run="b", **TABLES)
        assert begun.wait(20)
        patch.undo()
        other = pool.submit(client.call, "suggest", run="a")
        try:
            assert len(other.result(10)["trials"]) == 1
        finally:
            go_on.set()
        assert not hard.result(20)["resumed"]
    service.runs.close()


def test_a_run_is_continued_after_somebody_has_described_it_wrong(tmp_path):
    service, client = in_process(tmp_path)
    client.call("open", run="a", budget={"evaluations": 1}, **TABLES)
    service.runs.close()
    service, client = in_process(tmp_path)
    other = {"space": {"x": {"type": "integer", "low": 1, "high": 3}}}
    assert client.error("open", run="a", **other)[0] == "journal"
    assert client.call("open", run="a")["resumed"]
    client.call("suggest", run="a")
    assert client.error("suggest", run="a")[0] == "ended", "the budget is the first one"
    service.runs.close()


def test_a_changed_space_is_told_how_to_begin_with_the_old_results(tmp_path):
    service, client = in_process(tmp_path)
    client.call("open", run="v1", **TABLES)
    changed = {**TABLES, "space": {**SPACE, "more": {"type": "integer", "low": 1, "high": 2}}}
    messages = [client.error("open", run="v1", **changed)]
    service.runs.close()
    service, client = in_process(tmp_path)
    messages.append(client.error("open", run="v1", **changed))
    for word, message in messages:
        assert word == "journal"
        assert "parameter 'more' was added" in message
        assert '`open` with "run": "NEW", "warm_start": "v1" begins with the old results' in message
        assert "run file" not in message
    service.runs.close()


@pytest.mark.parametrize(
    ("method", "params", "hint"),
    [
        ("observe", {"secnds": 1}, "did you mean 'seconds'?"),
        ("suggest", {"qqq": 3}, "one of n, task, run, client"),
    ],
)
def test_an_unknown_parameter_gets_a_hint(method, params, hint):
    _, client = in_process()
    word, message = client.error(method, **params)
    assert word == "params"
    assert message.endswith(hint)


def test_a_misspelt_run_gets_the_names_of_the_others(tmp_path):
    service, client = in_process(tmp_path)
    client.call("open", run="transpose", **TABLES)
    client.call("open", run="other", **TABLES)
    word, message = client.error("suggest", run="transpos")
    assert word == "no_run"
    assert "'transpos' does not exist (there are other, transpose)" in message
    service.runs.close()


def test_errors_have_no_path(tmp_path):
    service, client = in_process(tmp_path)
    client.call("open", run="a", **TABLES)
    service.runs.close()
    service, client = in_process(tmp_path)
    other = {**TABLES, "optimizer": {"strategy": "random_search", "seed": 6}}
    word, message = client.error("open", run="a", **other)
    assert word == "journal"
    assert "seed" in message
    assert str(tmp_path) not in message
    service.runs.close()


def test_a_bug_is_an_error_without_a_traceback(monkeypatch, capsys):
    service, client = in_process()
    client.call("open", **TABLES)
    monkeypatch.setattr(type(service.runs.find(None).optimizer), "suggest", lambda *a, **k: 1 / 0)
    word, message = client.error("suggest")
    assert word == "internal"
    assert "ZeroDivisionError" in message
    assert "Traceback" in capsys.readouterr().err
    assert client.call("status")["observed"] == 0


def test_a_run_with_another_budget_goes_on():
    _, client = in_process()
    client.call("open", **TABLES, budget={"evaluations": 1})
    client.call("observe", trial=client.call("suggest")["trials"][0]["id"], value=1)
    assert client.error("suggest")[0] == "ended"
    assert client.call("open", **TABLES, budget={"evaluations": 2})["resumed"]
    client.call("suggest")


def test_the_end_of_a_run_names_the_trials_that_nobody_has_reported():
    _, client = in_process()
    client.call("open", **TABLES, budget={"evaluations": 2})
    first, _ = client.call("suggest", n=2)["trials"]
    client.call("observe", trial=first["id"], value=1)
    word, message = client.error("suggest")
    assert word == "ended"
    assert (
        "are pending: trial 1 of 'client' (if their programs have ended: observe or abandon"
        in message
    )


@pytest.mark.parametrize("outcome", [{"values": []}, {"metrics": {"time": []}}])
def test_no_repeats_are_no_failure(outcome):
    _, client = in_process()
    client.call("open", **TABLES)
    client.call("suggest")
    word, message = client.error("observe", trial=0, **outcome)
    assert word == "params"
    assert "a list of repeats is empty" in message
    assert client.call("status")["observed"] == 0


def test_several_objectives_and_tasks():
    _, client = in_process()
    objective = [{"name": "time", "unit": "ms"}, {"name": "size"}]
    client.call("open", run="two", space=SPACE, objective=objective)
    for i, metrics in enumerate(
        [{"time": 1, "size": [5, 7, 6]}, {"time": 2, "size": 3}, {"time": 3, "size": 9}]
    ):
        client.call("suggest", run="two")
        client.call("observe", run="two", trial=i, metrics=metrics)
    assert [t["id"] for t in client.call("front", run="two")["trials"]] == [0, 1]
    assert client.call("recommend", run="two", weights={"size": 0})["trial"]["id"] == 0
    client.call("suggest", run="two")
    failed = client.call("observe", run="two", trial=3, metrics={"time": 1, "size": None})
    assert failed["trial"]["status"] == "failed"

    tasks = {"list": [{"n": 512}, {"n": 4096}]}
    client.call("open", run="tasks", space=SPACE, tasks=tasks)
    for n in (512, 4096, 4096):
        (trial,) = client.call("suggest", run="tasks", task={"n": n})["trials"]
        assert trial["config"]["n"] == n
        client.call("observe", run="tasks", trial=trial["id"], value=n + trial["id"])
    assert client.call("best", run="tasks", task="n=4096")["trial"]["id"] == 1
    assert client.error("best", run="tasks", task="n=1")[0] == "space"
    recommended = client.call("recommend", run="tasks")["tasks"]
    assert [each["task"] for each in recommended] == tasks["list"]


def test_a_trial_of_another_run_is_not_observed():
    _, client = in_process()
    client.call("open", **TABLES, lease=0.001)
    first, second = client.call("suggest", n=2)["trials"]
    word, message = client.error("observe", trial=0, config=second["config"], value=1.0)
    assert word == "trial"
    assert "trial 0 has the configuration {'tile': " in message
    assert "it is of another run" in message
    assert client.call("status")["observed"] == 0
    assert client.call("observe", trial=0, config=first["config"], value=1.0)["best"]


def test_leases_and_late_results():
    _, client = in_process()
    client.call("open", **TABLES, lease=0.001)
    (trial,) = client.call("suggest", client="slow")["trials"]
    assert trial["lease"] == 0.001
    time.sleep(0.01)  # until it has ended
    (again,) = client.call("suggest", client="fast")["trials"]
    assert (again["id"], again["client"]) == (trial["id"], "fast")
    assert client.call("heartbeat", trials=[0])["pending"] == [0]
    client.call("observe", trial=0, value=1.0, client="fast")
    late = client.call("observe", trial=0, value=3.0, client="slow")["trial"]
    assert late["id"] != trial["id"], "a further measurement of the configuration"
    assert client.call("heartbeat", trials=[0])["pending"] == []


def test_each_method_has_a_function_and_a_sentence():
    from baco_like.service.methods import _FUNCTIONS

    assert {*_FUNCTIONS, "hello", "open"} == set(METHODS)
    assert all(method.meaning for method in METHODS.values())


def test_events_can_be_read_from_any_number():
    _, client = in_process()
    client.call("open", **TABLES, budget={"evaluations": 400})
    for i in range(300):
        client.call("suggest")
        client.call("abandon", trial=i)
    every = client.call("events", most=10_000)
    assert every["next"] == 601
    for after in (0, 1, 255, 256, 257, 511, 512, 600, 601, 700):
        part = client.call("events", after=after, most=2)
        assert part["events"] == every["events"][after : after + 2]


def test_a_header_of_another_program_names_no_command(tmp_path):
    service, client = in_process(tmp_path)
    header = dict(Optimizer(Space({"x": [1, 2]}), context={"gpu": "A100"}).opened)
    options = header["options"]
    for key in ("[evaluator] run", "folder", "compiler"):
        other = {**header, "options": {**options, "context": {key: "rm -rf x"}}}
        assert client.error("append", run="a", event=other, after=0)[0] == "params"
    large = {"name": "genetic_algorithm", "settings": {"population": 10**9}}
    other = {**header, "options": {**options, "strategy": large}}
    assert client.error("append", run="a", event=other, after=0)[0] == "limit"
    assert list(tmp_path.iterdir()) == []
    allowed = {**options, "context": {"gpu": "A100", "[objective] unit": "ms"}}
    opened = {**header, "options": allowed}
    assert client.call("append", run="a", event=opened, after=0)["next"] == 1
    assert client.call("suggest", run="a")["trials"][0]["id"] == 0
    service.runs.close()


def test_an_event_with_keys_of_the_journal_is_refused(tmp_path):
    service, client = in_process(tmp_path)
    client.call("open", run="a", **TABLES)
    client.call("suggest", run="a")
    event = {"event": "abandoned", "id": 0, "reason": "x"}
    for key, value in (("n", 7), ("prev", None), ("crc", "x")):
        word, message = client.error("append", run="a", event={**event, key: value}, after=2)
        assert (word, repr(key) in message) == ("journal", True)
    service.runs.close()
    service, client = in_process(tmp_path)
    assert len(client.call("status", run="a")["pending"]) == 1
    service.runs.close()
