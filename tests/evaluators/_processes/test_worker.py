"""A worker whose handler has every fault of a kernel, and that all its processes and files are removed."""

import json
import math
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from process_checks import PATIENCE, children_of_ours, gone, needs_setsid

from baco_like.evaluators._processes import worker as worker_module
from baco_like.evaluators._processes.worker import Worker
from baco_like.exceptions import EvaluatorError
from baco_like.records.trial import Status

pytestmark = pytest.mark.usefixtures("temporary")

LIMIT = 0.3
"""Seconds of a run that never ends."""

INVALID = "it wrote something else than an answer into its pipe"


@pytest.fixture
def worker(temporary, monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    before = children_of_ours()
    made = Worker("worker_targets:misbehaving", settings={"limit": LIMIT})
    yield made
    made.close()
    assert children_of_ours() == before


def ask(worker, *request):
    reply = worker.request(request, timeout=PATIENCE)
    assert reply.ok, reply
    return reply.value


def test_one_process_answers_many_requests(worker):
    assert worker.starts == 0
    assert ask(worker, "echo", 1, "ü", None, [2.5]) == [1, "ü", None, [2.5]]
    assert ask(worker, "pid") == ask(worker, "pid") != os.getpid()
    assert worker.starts == 1


def test_a_start_does_not_wait(worker):
    worker.start()
    worker.start()
    assert worker.starts == 1
    assert ask(worker, "echo", 1) == [1]
    worker.close()
    worker.start()  # without a request it ends, too
    assert worker.starts == 2


def test_a_start_that_fails_is_an_error_of_the_next_request(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    worker = Worker("worker_targets:absent")
    worker.start()
    time.sleep(LIMIT)
    for _ in range(2):
        with pytest.raises(
            EvaluatorError, match="the worker 'worker_targets:absent' does not start"
        ):
            worker.request(None, timeout=PATIENCE)
    assert worker.starts == 2


def test_a_long_request_and_a_long_answer(worker):
    assert ask(worker, "long") == "x" * (1 << 20)
    text = "y" * (1 << 20)
    assert ask(worker, "echo", text) == [text]


def test_stages_notes_and_output(worker):
    reply = worker.request(["print", "hello"], timeout=PATIENCE)
    assert set(reply.seconds) == {"compile", "run"}
    assert (reply.stage, reply.notes, reply.output) == ("run", (0.5,), "hello\n")
    assert worker.request(["echo"], timeout=PATIENCE).output == ""


def test_an_exception_is_an_answer_and_the_process_goes_on(worker):
    before = ask(worker, "pid")
    reply = worker.request(["raise", "no such tile"], timeout=PATIENCE)
    assert reply.describe() == "run: builtins.ValueError: no such tile"
    outcome = reply.failure(7)
    assert (outcome.trial_id, outcome.status, outcome.failed) == (7, Status.FAILED, "runtime")
    assert outcome.extra["repeats"] == [0.5]
    assert ask(worker, "pid") == before


@pytest.mark.parametrize(
    ("request_", "ended"),
    [
        (["segfault"], "ended by SIGSEGV"),
        (["abort"], "ended by SIGABRT"),
        (["die", "SIGKILL"], "ended by SIGKILL"),
        (["exit", 3], "exit code 3"),
        (["exit", 0], "exit code 0"),
        (["scribble"], f"{INVALID} (Expecting value: line 1 column 1 (char 0))"),
    ],
)
def test_a_death_is_told_and_the_next_request_starts_another(worker, request_, ended):
    reply = worker.request(request_, timeout=PATIENCE)
    assert (reply.ok, reply.ended, reply.timed_out) == (False, ended, False)
    assert reply.notes == (0.5,)
    assert reply.failure(1).failed == "runtime"
    assert ended in reply.failure(1).message
    assert ask(worker, "echo", 1) == [1]
    assert worker.starts == 2


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("[1]", "not a JSON object"),
        ("[" * 100_000, "nested too deeply"),
        ("{}", "expected one of the keys"),
        ('{@, "stage": "run", "answer": 1}', "expected one of the keys"),
        ('{"number": true, "at": 1, "answer": 1}', "'number' is not"),
        ('{"at": 1, "answer": 1}', "'number' is not"),
        ('{"number": 1, "at": "soon", "answer": 1}', "'at' is not a time: 'soon'"),
        ('{"number": 1, "at": 1' + 400 * "0" + ', "answer": 1}', "'at' is not a time"),
        ('{@, "stage": 3, "limit": 1}', "the stage is 3"),
        ('{@, "stage": ["run"], "limit": 1}', r"the stage is \['run'\]"),
        ('{@, "stage": "' + 101 * "x" + '"}', "1 to 100 characters"),
        ('{@, "stage": "run", "limit": "long"}', "the limit of stage 'run' is 'long'"),
        ('{@, "stage": "run", "limit": 1e999}', "1e999 is not a finite number"),
        ('{@, "stage": "run", "limit": NaN}', "NaN is not a finite number"),
        ('{@, "note": -Infinity}', "-Infinity is not a finite number"),
        ('{@, "error": "bad"}', "the error is 'bad'"),
        ('{@, "error": {"kind": 1, "message": "x"}}', "the error is"),
        ('{@, "error": {"kind": "x"}}', "the error is"),
    ],
)
def test_a_message_of_another_form_is_refused(line, problem):
    with pytest.raises(ValueError, match=problem):
        worker_module.read_message(line.replace("@", '"number": 1, "at": 1.5').encode())


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.just(10**400),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)
FIELDS = st.sampled_from(["number", "at", "stage", "limit", "note", "answer", "error", "other"])


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.binary() | st.dictionaries(FIELDS, VALUES).map(lambda value: json.dumps(value).encode()))
def test_any_line_is_a_valid_message_or_a_value_error(line):
    try:
        message = worker_module.read_message(line)
    except ValueError:
        return
    assert math.isfinite(message["at"])
    if "stage" in message:
        assert isinstance(message["stage"], str)
        assert message.get("limit") is None or math.isfinite(message["limit"])


@pytest.mark.parametrize("line", ['{@, "stage": "run"}{}', '{@, "stage": "run", "limit": "long"}'])
def test_a_forged_message_ends_the_process_and_not_the_run(worker, line):
    """A kernel shares the process with its handler, and can write into the pipe of replies."""
    reply = worker.request(["forge", line], timeout=PATIENCE)
    assert reply.notes == (0.5,)
    outcome = reply.failure(1)
    assert outcome.failed == "runtime"
    assert outcome.message.startswith(f"run: {INVALID} (")
    assert ask(worker, "echo", 1) == [1]
    assert worker.starts == 2


def test_a_stage_without_a_limit_keeps_the_deadline(worker):
    """The first of the two forged lines that once ended a run, with a KeyError."""
    reply = worker.request(["forge", '{@, "stage": "other"}', '{@, "answer": 1}'], timeout=PATIENCE)
    assert (reply.value, reply.stage) == (1, "other")


def test_forged_messages_cannot_fill_the_memory_or_the_journal(worker, monkeypatch):
    stages = [f'{{@, "stage": "{number}"}}' for number in range(200)]
    reply = worker.request(["forge", *stages], timeout=PATIENCE)
    assert "it named more than 100 stages" in reply.describe()
    assert len(reply.seconds) < 110
    monkeypatch.setattr(worker_module, "_MAX_REPLY", 1000)
    reply = worker.request(["forge", *60 * ['{@, "note": 1}']], timeout=PATIENCE)
    assert "more than" in reply.describe()
    assert len(reply.notes) < 60


def test_a_reply_of_another_form_is_refused_by_the_caller(worker):
    def check(reply):
        if reply.value != [1]:
            raise TypeError("no list of 1")

    assert worker.request(["echo", 1], timeout=PATIENCE, check=check).ok
    reply = worker.request(["echo", 2], timeout=PATIENCE, check=check)
    assert (reply.ok, reply.value, reply.notes) == (False, None, ())
    assert reply.ended == f"{INVALID} (TypeError: no list of 1)"
    assert ask(worker, "echo", 1) == [1]
    assert worker.starts == 2


def test_an_answer_that_is_not_json_is_an_error(worker):
    assert "not JSON compliant" in worker.request(["not_finite"], timeout=PATIENCE).describe()
    assert "not JSON serializable" in worker.request(["object"], timeout=PATIENCE).describe()
    assert worker.starts == 1


def test_the_last_words_are_in_the_message(worker):
    reply = worker.request(["abort"], timeout=PATIENCE)
    assert reply.describe() == "run: ended by SIGABRT: terminate called"


@pytest.mark.parametrize("name", ["hang", "ignore_sigterm", "flood"])
def test_a_limit_ends_it(worker, name):
    ask(worker, "pid")
    started = time.monotonic()
    reply = worker.request([name], timeout=PATIENCE)
    assert (reply.timed_out, reply.failure(1).failed) == (True, "timeout")
    assert reply.describe().startswith(f"run: stopped after {LIMIT} s")
    assert LIMIT <= reply.seconds["run"] <= time.monotonic() - started < PATIENCE
    assert len(reply.output) < 4 << 20
    assert ask(worker, "echo") == []


def test_the_limit_of_the_request_holds_without_one_of_a_stage(worker):
    worker = Worker("worker_targets:misbehaving", settings={"limit": None})
    reply = worker.request(["ignore_sigterm"], timeout=LIMIT)
    assert reply.timed_out
    assert f"stopped after {LIMIT} s" in reply.describe()
    worker.close()


def test_the_last_limit_that_was_set_counts(monkeypatch):
    """A stage may have a limit that is longer than the remaining time."""
    now = [10.0]
    monkeypatch.setattr(worker_module, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    one = worker_module._Exchange(0, 0, 0.8)
    now[0] += 0.5
    for stage, limit, remaining in (("compile", 1.0, 1.0), ("run", None, 0.75)):
        fields = {"number": 0, "at": now[0], "stage": stage, "limit": limit}
        one.read_line(json.dumps(fields).encode())
        assert one.remaining() == remaining
        now[0] += 0.25
    one.end_late()
    assert one.complete_reply().ended == "stopped after 1 s"


@pytest.mark.parametrize("crash", [False, True])
@pytest.mark.parametrize("action", ["child", "away", pytest.param("daemon", marks=needs_setsid)])
def test_children_go_with_it(worker, action, crash):
    tag = f"6{uuid.uuid4().int}"
    ask(worker, *(["daemon", tag] if action == "daemon" else ["child", tag, action == "away"]))
    if crash:
        assert not worker.request(["segfault"], timeout=PATIENCE).ok
    else:
        worker.close()
    assert gone(tag)


def test_temporary_files_go_with_it(worker, temporary):
    folder = ask(worker, "file")
    assert Path(str(folder)).parent == temporary
    worker.request(["file_and_die"], timeout=PATIENCE)
    assert list(temporary.iterdir()) == []


def test_death_between_two_requests_costs_neither(worker):
    first = int(str(ask(worker, "pid")))
    os.kill(first, signal.SIGKILL)
    os.waitid(os.P_PID, first, os.WEXITED | os.WNOWAIT)
    assert ask(worker, "pid") != first
    assert worker.starts == 2


def test_memory_limit_and_environment(worker):
    limited = Worker(
        "worker_targets:misbehaving",
        settings={"limit": LIMIT},
        memory=1 << 30,
        environment={"BACO_X": "a b"},
    )
    assert ask(limited, "allocate", 1 << 20) == 1 << 20
    reply = limited.request(["allocate", 2 << 30], timeout=PATIENCE)
    assert "MemoryError" in reply.describe()
    assert ask(limited, "environment", "BACO_X") == "a b"
    limited.close()


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("worker_targets:broken", "RuntimeError: there is no such device"),
        ("worker_targets:deadly", "ended by SIGABRT"),
        ("worker_targets:absent", "AttributeError"),
        ("no_such_module:serve", "no_such_module"),
    ],
)
def test_what_cannot_start_is_an_error(worker, target, message):
    with pytest.raises(EvaluatorError, match=message):
        Worker(target).request(None, timeout=PATIENCE)


@pytest.mark.skipif(sys.platform != "linux", reason="pinning is of Linux")
def test_it_may_be_pinned(worker):
    cpu = min(os.sched_getaffinity(0))
    pinned = Worker("worker_targets:misbehaving", settings={"limit": LIMIT}, cpus=frozenset({cpu}))
    assert ask(pinned, "cpus") == [cpu]
    pinned.close()


def test_closing_is_idempotent_and_not_the_end(worker):
    first = ask(worker, "pid")
    worker.close()
    worker.close()
    assert ask(worker, "pid") != first


def test_what_is_forgotten_is_ended(worker, temporary):
    other = Worker("worker_targets:misbehaving", settings={"limit": LIMIT})
    number = ask(other, "pid")
    del other
    assert not Path(f"/proc/{number}").exists()


def test_threads_take_turns(worker):
    found = []
    threads = [
        threading.Thread(target=lambda i=i: found.append(ask(worker, "echo", i))) for i in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found, key=str) == [[i] for i in range(8)]


def test_ctrl_c_ends_it_and_is_raised_again(worker):
    number = ask(worker, "pid")
    with pytest.raises(KeyboardInterrupt):
        worker.request(["interrupt"], timeout=PATIENCE)
    assert not Path(f"/proc/{number}").exists()


def test_ctrl_c_during_the_start_ends_it(worker, monkeypatch):
    start, started = subprocess.Popen, []

    def interrupted(*args, **settings):
        started.append(start(*args, **settings))
        signal.raise_signal(signal.SIGINT)
        return started[0]

    with monkeypatch.context() as patched:
        patched.setattr(subprocess, "Popen", interrupted)
        with pytest.raises(KeyboardInterrupt):
            worker.request(["pid"], timeout=PATIENCE)
    assert started[0].returncode == -signal.SIGKILL
    assert ask(worker, "pid") != started[0].pid


@needs_setsid
def test_a_killed_caller_leaves_nothing_running(worker, temporary):
    tag = f"6{uuid.uuid4().int}"
    code = (
        "import os, signal, sys\nfrom baco_like.evaluators._processes.worker import Worker\n"
        f"sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "worker = Worker('worker_targets:misbehaving', settings={'limit': None})\n"
        f"worker.request(['daemon', {tag!r}], timeout={PATIENCE})\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    environment = {**os.environ, "TMPDIR": str(temporary)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, check=False)
    assert done.returncode == -signal.SIGKILL
    assert gone(tag)
    for folder in temporary.iterdir():  # its own next process removes it, or the system
        subprocess.run(["rm", "-r", folder], check=True)
