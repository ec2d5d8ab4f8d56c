"""Each request takes effect once, however often it is sent, and whatever happens to the server in between."""

import json
import random
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st
from serving import TABLES, Client, Killable, in_process, line, new_id

from baco_like import Optimizer, Search, Space
from baco_like.journal.events import START
from baco_like.service.runs import Description

STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            (
                "suggest",
                "observe",
                "fail",
                "abandon",
                "enqueue",
                "claim",
                "propose",
                "resend",
                "reuse",
                "reopen",
            )
        ),
        st.integers(0, 5),
    ),
    min_size=1,
    max_size=25,
)
CONFIGS = [{"tile": t, "order": ["k", "i", "j"], "unroll": u} for t in (8, 64) for u in (1, 2, 3)]


def python_run():
    """Return the run that `TABLES` describe, in Python."""
    parameters = Description.read(TABLES).space.to_dict()
    return Optimizer(Space.from_dict(parameters), seed=5, strategy=Search("random_search"))


def shown(trial):
    return trial.id, dict(trial.config), trial.status.value, trial.value, trial.failure


class Model:
    """A server with its client, and a Python program that does the same without interruption."""

    def __init__(self, folder):
        self.folder, self.python = folder, python_run()
        self.sent = []
        self.service = None
        self.reopen()

    def reopen(self):
        if self.service is not None:
            self.service.runs.close()
        self.service, self.client = in_process(self.folder)
        self.client.call("open", run="a", **TABLES)

    def send(self, method, **params):
        params["run"] = "a"
        request = new_id()
        answer = self.client.ask(method, request, **params)
        self.sent.append((method, request, params, answer))
        return answer

    def do(self, step, number):
        pending = self.python.pending
        trial = pending[number % len(pending)] if pending else None
        if step == "suggest":
            answer = self.send("suggest", n=number + 1)
            trials = self.python.suggest(number + 1)
            assert [t["id"] for t in answer["result"]["trials"]] == [t.id for t in trials]
        elif step in ("enqueue", "claim"):
            answer = self.send(step, config=CONFIGS[number])
            try:
                getattr(self.python, step)(CONFIGS[number])
            except ValueError:
                assert answer["error"]["data"]["error"] == "config"
        elif step == "propose":
            answer = self.send("propose", configs=[CONFIGS[number]], source="x")
            own = self.python.propose(CONFIGS[number], source="x")
            expected = {"accepted": own.accepted, "reason": own.reason, "nearest": own.nearest}
            assert json.dumps(answer["result"]["answers"]) == json.dumps([expected])
            if own.reason:  # after a restart it is not in the journal, so it is proposed again
                self.sent.pop()
        elif step == "resend" and self.sent:
            method, request, params, before = self.sent[-1 - number % len(self.sent)]
            if "result" in before:
                assert self.client.ask(method, request, **params) == before
        elif step == "reuse" and self.sent:
            method, request, params, before = self.sent[-1 - number % len(self.sent)]
            if "result" in before:
                other = "status" if method == "abandon" else "abandon"
                named = {} if other == "status" else {"trial": 0}
                assert self.client.error(other, request, run="a", **named)[0] == "id_reused"
        elif step == "reopen":
            self.reopen()
        elif trial is not None and step == "observe":
            self.send("observe", trial=trial.id, value=1.5 * number)
            self.python.observe(trial, 1.5 * number)
        elif trial is not None and step == "fail":
            self.send("observe", trial=trial.id, failed="compile")
            self.python.observe(trial, failed="compile")
        elif trial is not None and step == "abandon":
            self.send("abandon", trial=trial.id)
            self.python.abandon(trial)

    def check(self):
        served = self.service.runs.find("a").optimizer
        for name in ("trials", "pending"):
            own, other = getattr(served, name), getattr(self.python, name)
            assert list(map(shown, own)) == list(map(shown, other))
        assert list(served.history.queue) == list(self.python.history.queue)
        assert len(list(served.journal.read(START))) == len(self.python.journal.events)


@given(steps=STEPS)
def test_a_server_does_what_a_python_program_does_once(tmp_path_factory, steps):
    model = Model(tmp_path_factory.mktemp("runs"))
    for step in steps:
        model.do(*step)
    model.check()
    model.service.runs.close()


def value_of(trial):
    """Return what a client measures."""
    return trial["config"]["tile"] / 16 + trial["config"]["unroll"] % 3


def reference(evaluations, at_once):
    """Return the suggestions of a Python program that evaluates two trials at once."""
    run, pending, found = python_run(), [], []
    while len(run.trials) < evaluations:
        new = run.suggest(at_once - len(pending))
        found += [
            (trial.id, {k: list(v) if isinstance(v, tuple) else v for k, v in trial.items()})
            for trial in new
        ]
        pending += new
        trial = pending.pop(0)
        run.observe(trial, trial["tile"] / 16 + trial["unroll"] % 3)
    return found


def test_kills_at_random_moments_lose_nothing_and_count_nothing_twice(tmp_path):
    kills, evaluations, rng = 12, 30, random.Random(7)
    server = Killable(tmp_path)

    def send(text):
        """Send a line until there is an answer; while kills are left, the server may end at any moment."""
        nonlocal kills
        while True:
            try:
                server.send(text)
                if kills and rng.random() < 0.25:
                    kills -= 1
                    time.sleep(rng.random() * 0.02)
                    server.kill()
                    server.start()
                    continue
                if answer := server.read():
                    return answer
            except BrokenPipeError:
                pass
            server.start()

    client, pending, found, observed = Client(send), [], [], 0
    client.call("open", run="a", **TABLES)
    while observed < evaluations:
        new = client.call("suggest", run="a", n=2 - len(pending))["trials"]
        found += [(trial["id"], trial["config"]) for trial in new]
        pending += new
        trial = pending.pop(0)
        client.call("observe", run="a", trial=trial["id"], value=value_of(trial))
        observed += 1
    status = client.call("status", run="a")
    server.kill()
    assert kills == 0
    assert found == reference(evaluations, at_once=2)
    assert status["observed"] == evaluations
    assert [trial["id"] for trial in status["pending"]] == [trial["id"] for trial in pending]


def test_a_suggestion_that_was_interrupted_is_completed(tmp_path):
    service, client = in_process(tmp_path)
    client.call("open", run="a", **TABLES)
    run = service.runs.find("a")
    text = line("suggest", "x-1", run="a", n=3)
    whole = json.loads(service.answer(text.encode()))["result"]["trials"]
    service.runs.close()
    journal = tmp_path / "a.jsonl"
    # The event of a server that ended after the first of several events of the request: one trial of three.
    other, client = in_process(tmp_path / "other")
    client.call("open", run="a", **TABLES)
    second = other.runs.find("a")
    digest = json.loads(journal.read_text().splitlines()[1])["request"][2]
    with second.optimizer.answering("client", "x-1", digest, 3):
        second.optimizer.suggest(1)
    other.runs.close()
    again, client = in_process(tmp_path / "other")
    trials = client.call("suggest", "x-1", run="a", n=3)["trials"]
    assert [trial["id"] for trial in trials] == [trial["id"] for trial in whole] == [0, 1, 2]
    assert client.call("suggest", "x-1", run="a", n=3)["trials"] == trials
    assert run.name == "a"
    again.runs.close()


def test_ids_are_kept_for_each_client_and_1000_of_them():
    _, client = in_process()
    client.call("open", **TABLES)
    first = client.call("suggest", "1", client="a")
    assert client.call("suggest", 1, client="a") != first, "an integer is another id"
    assert client.call("suggest", "1", client="b") != first, "another client has its own ids"
    assert client.call("suggest", "1", client="a") == first
    for _ in range(998):
        client.call("heartbeat", trials=[], client="a")
    assert client.call("suggest", "1", client="a") == first
    client.call("heartbeat", trials=[], client="a")
    assert client.call("suggest", "1", client="a") != first, "999 others are younger"


def test_programs_without_a_name_share_more_answers():
    _, client = in_process()
    client.call("open", **TABLES)
    first = client.call("suggest", "1")
    for _ in range(1200):
        client.call("heartbeat", trials=[])
    assert client.call("suggest", "1") == first


def test_the_answer_in_progress_outlives_1000_others(monkeypatch):
    service, client = in_process()
    client.call("open", **TABLES)
    optimizer, others = service.runs.find(None).optimizer, []
    suggest = optimizer.suggest

    def slow(*args, **kwargs):
        others.extend(client.call("heartbeat", trials=[]) for _ in range(1200))
        return suggest(*args, **kwargs)

    monkeypatch.setattr(optimizer, "suggest", slow)
    first = client.call("suggest", "1")
    assert len(others) == 1200
    assert client.call("suggest", "1") == first


def test_a_request_that_fails_half_way_is_completed(monkeypatch):
    service, client = in_process()
    client.call("open", **TABLES)
    optimizer = service.runs.find(None).optimizer
    whole = optimizer.suggest

    def suggest(n, **kwargs):
        whole(1, **kwargs)
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(optimizer, "suggest", suggest)
        assert client.error("suggest", "1", n=3)[0] == "internal"
    assert [t["id"] for t in client.call("suggest", "1", n=3)["trials"]] == [0, 1, 2]
    assert client.call("status")["pending"] == client.call("suggest", "1", n=3)["trials"]


def test_the_same_request_at_the_same_time(monkeypatch):
    service, client = in_process()
    client.call("open", **TABLES)
    optimizer = service.runs.find(None).optimizer
    whole, failures = optimizer.suggest, [ZeroDivisionError(), ZeroDivisionError()]

    def suggest(n, **kwargs):
        time.sleep(0.01)
        if failures:
            raise failures.pop()
        return whole(n, **kwargs)

    monkeypatch.setattr(optimizer, "suggest", suggest)
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: client.ask("suggest", "1"), range(8)))
    found = [answer["result"] for answer in answers if "result" in answer]
    assert len(found) == 6
    assert all(each == found[0] for each in [*found, client.call("suggest", "1")])
    assert len(client.call("status")["pending"]) == 1


def test_clients_share_the_rest_of_a_budget():
    _, client = in_process()
    client.call("open", **TABLES, budget={"evaluations": 30})

    def work(number):
        found = []
        while "result" in (answer := client.ask("suggest", n=1 + number % 3, client=f"c{number}")):
            found += [trial["id"] for trial in answer["result"]["trials"]]
        assert answer["error"]["data"]["error"] == "ended"
        return found

    with ThreadPoolExecutor(8) as pool:
        ids = [i for found in pool.map(work, range(8)) for i in found]
    assert sorted(ids) == list(range(30)), "neither more nor fewer"


def test_an_error_changes_nothing_and_its_id_may_be_tried_again():
    _, client = in_process()
    client.call("open", **TABLES)
    assert client.error("observe", "1", trial=0, value=1.0)[0] == "trial"
    client.call("suggest")
    assert client.call("observe", "1", trial=0, value=1.0)["best"]


@pytest.mark.parametrize("again", [True, False])
def test_pending_trials_of_an_earlier_server(tmp_path, again):
    service, client = in_process(tmp_path, suggests_again=again)
    client.call("open", run="a", **TABLES)
    ids = [trial["id"] for trial in client.call("suggest", run="a", n=3)["trials"]]
    service.runs.close()
    service, client = in_process(tmp_path, suggests_again=again)
    assert [trial["id"] for trial in client.call("open", run="a")["pending"]] == ids
    assert client.call("heartbeat", run="a", trials=[ids[0], 99])["pending"] == [ids[0]]
    expected = [ids[1], ids[2], 3] if again else [3, 4, 5]
    assert [t["id"] for t in client.call("suggest", run="a", n=3)["trials"]] == expected
    service.runs.close()
