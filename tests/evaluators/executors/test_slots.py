"""Device slots: one measurement per slot at a time, builds anywhere, never two device types in one run."""

import json
import os
import queue
import threading
from collections import Counter
from functools import partial

import executor_targets
import pytest

from baco_like import (
    EvaluatorError,
    JournalError,
    MaxEvals,
    Optimizer,
    Outcome,
    Space,
    Trial,
    Workers,
    run,
    tune,
)
from baco_like.cli import main, runs
from baco_like.cli.arguments import build_parser
from baco_like.evaluators import (
    Built,
    ProcessLanes,
    Repeats,
    SlotsEvaluator,
    StagedEvaluator,
    StageFailure,
)
from baco_like.evaluators import slots as slots_module
from baco_like.evaluators.slots import resolve_slots
from baco_like.records import read_utilisation

TWO = [{"name": f"node{i}", "type": "T4", "environment": {"SLOT": str(i)}} for i in range(2)]
LISTED = """\
GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-aaaa1111-0000)
GPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-bbbb2222-0000)
GPU 2: NVIDIA A100-SXM4-40GB (UUID: GPU-cccc3333-0000)
  MIG 3g.20gb     Device  0: (UUID: MIG-dddd4444-0000)
  MIG 3g.20gb     Device  1: (UUID: MIG-eeee5555-0000)
  MIG 1g.5gb      Device  2: (UUID: MIG-ffff6666-0000)
"""


@pytest.fixture
def smi(tmp_path, monkeypatch):
    """A program `nvidia-smi` that lists two kinds of GPUs, one of them divided."""
    (tmp_path / "listed").write_text(LISTED)
    program = tmp_path / "nvidia-smi"
    program.write_text(f'#!/bin/sh\n[ "$1" = -L ] && cat {tmp_path}/listed\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    slots_module._list_nvidia_devices.cache_clear()
    yield
    slots_module._list_nvidia_devices.cache_clear()


@pytest.mark.usefixtures("smi")
def test_slots_are_read_and_have_the_type_of_their_device(monkeypatch):
    first, second = resolve_slots(["cuda:0", "GPU-bbbb2222"])
    assert first.type == second.type == "NVIDIA H100 80GB HBM3"
    assert first.environment == {"CUDA_VISIBLE_DEVICES": "0", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    assert second.environment["CUDA_VISIBLE_DEVICES"] == "GPU-bbbb2222"
    parts = resolve_slots(["MIG-dddd4444-0000", "cuda:MIG-eeee5555-0000"])
    assert [part.type for part in parts] == ["NVIDIA A100-SXM4-40GB MIG 3g.20gb"] * 2
    assert parts[1].environment["CUDA_VISIBLE_DEVICES"] == "MIG-eeee5555-0000"
    assert resolve_slots(["hip:1"])[0].environment == {"HIP_VISIBLE_DEVICES": "1"}
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1,0")  # as Slurm sets it
    assert resolve_slots(["cuda:0"])[0].environment["CUDA_VISIBLE_DEVICES"] == "1"
    assert resolve_slots(resolve_slots(TWO)) == resolve_slots(TWO)


@pytest.mark.usefixtures("smi")
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (["cuda:0", "MIG-dddd4444-0000"], "'NVIDIA H100.*MIG 3g.20gb'; values of.*cannot be compared"),
        (["MIG-dddd4444-0000", "MIG-ffff6666-0000"], "Tune each type in a separate run.*prior"),
        (["cuda:2"], "divided into MIG instances; name each"),
        (["cuda:7"], "cuda:7 does not exist; nvidia-smi -L lists: 0, GPU-aaaa"),
        (["GPU-9"], "does not exist"),
        (["cuda:0", "cuda:0"], "appears twice"),
        ([{**TWO[0], "name": "a"}, {**TWO[0], "name": "b"}], "same environment"),
        (["gpu0"], 'expected "cuda:0"'),
        ([3], "3 is not a slot"),
        ([], "expected a list"),
        ("cuda:0", "expected a list"),
        ([{"name": "a"}], "needs the key 'type'"),
        ([{**TWO[0], "kind": "a"}], "has no key 'kind'"),
        ([{**TWO[0], "name": ""}], "name = '': expected a text"),
        ([{**TWO[0], "environment": {"A": 1}}], "environment = {'A': 1}: expected a table"),
    ],
)  # fmt: skip
def test_wrong_slots_are_refused(wrong, message):
    with pytest.raises(EvaluatorError, match=message):
        resolve_slots(wrong)


@pytest.mark.usefixtures("smi")
def test_slots_beyond_those_of_the_job_are_refused(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    with pytest.raises(EvaluatorError, match="CUDA_VISIBLE_DEVICES=1 allows 1 devices"):
        resolve_slots(["cuda:1"])


def test_without_nvidia_smi_the_type_is_cuda(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    slots_module._list_nvidia_devices.cache_clear()
    assert [slot.type for slot in resolve_slots(["cuda:0", "cuda:5"])] == ["cuda"] * 2
    slots_module._list_nvidia_devices.cache_clear()


# One measurement per slot at a time ------------------------------------------------------------------------------


class Laboratory:
    """What the benches of several slots share: it counts measurements; the first ones wait for one another."""

    def __init__(self, slots, meet):
        self.lock, self.measuring, self.most = threading.Lock(), Counter[str](), Counter[str]()
        self.built_in = set[str]()
        self.meeting = threading.Barrier(slots)
        self.left = meet

    def make(self, environment):
        return StagedEvaluator(LaboratoryBench(self, environment["SLOT"]), Repeats(), ahead=1)


class LaboratoryBench:
    def __init__(self, laboratory, slot):
        self.laboratory, self.slot = laboratory, slot

    def build(self, trial, seconds):
        self.laboratory.built_in.add(threading.current_thread().name)
        if trial["x"] == 5:
            raise StageFailure("compile", "no")
        seconds["compile"] = 100.0
        return LaboratoryBuilt(self.laboratory, self.slot, trial, seconds)

    def close(self):
        pass


class LaboratoryBuilt(Built):
    def __init__(self, laboratory, slot, trial, seconds):
        self.laboratory, self.slot, self.trial, self.seconds = laboratory, slot, trial, seconds

    def measure(self, count, limit, near):
        laboratory = self.laboratory
        with laboratory.lock:
            laboratory.measuring[self.slot] += 1
            laboratory.most[self.slot] = max(
                laboratory.most[self.slot], laboratory.measuring[self.slot]
            )
            laboratory.left -= 1
            meet = laboratory.left >= 0
        if meet:
            laboratory.meeting.wait(30)  # all slots measure at the same time
        with laboratory.lock:
            laboratory.measuring[self.slot] -= 1
        self.seconds["run"] = 0.25
        return (float(self.trial["x"]),) * count


def test_each_slot_measures_one_trial_at_a_time_and_builds_ahead():
    laboratory = Laboratory(2, meet=4)
    evaluator = SlotsEvaluator(laboratory.make, TWO)
    assert (evaluator.capacity, evaluator.slots[0].type) == (4, "T4")
    optimizer = Optimizer(Space({"x": list(range(12))}), strategy="exhaustive")
    assert run(optimizer, evaluator, MaxEvals(20)) == "the space is exhausted"
    assert sorted(t["x"] for t in optimizer.trials) == list(range(12))
    assert [t.failure for t in optimizer.trials if t["x"] == 5] == ["compile"]
    assert laboratory.most == {"0": 1, "1": 1}
    assert all(name.startswith("build") for name in laboratory.built_in)
    names = Counter(t.extra["worker"]["name"] for t in optimizer.trials if t.value is not None)
    assert set(names) == {"node0", "node1"}
    busy = read_utilisation(optimizer.history)
    assert (busy.workers, busy.busy) == (
        2,
        pytest.approx(11 * 0.25, abs=0.2),
    )  # builds need no slot
    bests = [part._best.find(optimizer.trials[0]) for part in evaluator.parts]
    assert bests == [0.0, 0.0]  # slots learn from one another


def test_an_error_of_a_slot_ends_the_run_after_other_outcomes():
    recorded = threading.Event()

    class Broken:
        capacity = 1

        def __init__(self, environment):
            self.slot, self.trials, self.waits = environment["SLOT"], list[Trial](), 0

        def submit(self, trial):
            self.trials.append(trial)

        def wait(self):
            self.waits += 1
            if self.slot == "1":
                assert recorded.wait(60)
                raise EvaluatorError("no device")
            if self.waits == 2:  # a slot gets its second trial after its first outcome
                recorded.set()
            return [Outcome.success(self.trials.pop().id, (1.0,))]

        def close(self):
            self.trials.clear()

    optimizer = Optimizer(Space({"x": list(range(50))}), strategy="exhaustive")
    evaluator = SlotsEvaluator(Broken, TWO)
    with pytest.raises(EvaluatorError, match="no device"):
        run(optimizer, evaluator, MaxEvals(50))
    assert 1 in [trial.id for trial in optimizer.pending]
    assert optimizer.trials[0].id == 0
    with pytest.raises(EvaluatorError, match="without a submitted trial"):
        evaluator.wait()


def test_a_trial_may_come_again_before_the_outcome_of_another():
    permits = threading.Semaphore(0)

    class Backwards:
        """Evaluates the newest trial first, with a permit."""

        capacity = 3

        def __init__(self, environment):
            self.trials = []

        def submit(self, trial):
            self.trials.append(trial)

        def wait(self):
            assert permits.acquire(timeout=60)
            return [Outcome.success(self.trials.pop().id, (1.0,))]

        def close(self):
            self.trials.clear()

    evaluator = SlotsEvaluator(Backwards, TWO[:1])
    for number in range(3):
        evaluator.submit(Trial(number, {"x": number}))
    permits.release()
    assert [outcome.trial_id for outcome in evaluator.wait()] == [2]
    evaluator.submit(Trial(2, {"x": 2}))
    assert len(evaluator._pending) == 3  # one call for each trial
    permits.release(3)
    outcomes = []
    while len(outcomes) < 3:
        outcomes += evaluator.wait()
    assert sorted(outcome.trial_id for outcome in outcomes) == [0, 1, 2]
    evaluator.close()


def test_a_slot_may_return_several_outcomes_at_once():
    waits = []

    class Together:
        capacity = 2

        def __init__(self, environment):
            self.trials = queue.SimpleQueue()

        def submit(self, trial):
            self.trials.put(trial)

        def wait(self):
            waits.append(len(waits))
            return [Outcome.success(self.trials.get(timeout=20).id, (1.0,)) for _ in range(2)]

        def close(self):
            pass

    evaluator = SlotsEvaluator(Together, TWO[:1])
    for first in (0, 2):
        for number in range(first, first + 2):
            evaluator.submit(Trial(number, {"x": number}))
        assert sorted(outcome.trial_id for outcome in evaluator.wait()) == [first, first + 1]
    assert evaluator.collect(60) == []
    assert len(waits) == 2  # no call waits for outcomes that another one has returned
    evaluator.close()


# In run files, on the command line, in Python --------------------------------------------------------------------

RUN_FILE = """
[space.x]
type = "ordinal"
values = [1, 2, 3, 4, 5, 6]
[evaluator]
kind = "command"
build = "sh -c 'test -z \\"$SLOT$CUDA_VISIBLE_DEVICES\\"'"
run = "sh -c 'echo value: $SLOT$CUDA_VISIBLE_DEVICES'"
pattern = "value: (.*)"
{slots}
[budget]
evaluations = 6
[drift]
every = 0
"""
SLOTS = """slots = [
    { name = "a", type = "T4", environment = { SLOT = "7" } },
    { name = "b", type = "T4", environment = { SLOT = "8" } },
]"""


def written(folder, slots):
    path = folder / "run.toml"
    path.write_text(RUN_FILE.format(slots=slots))
    return path


def test_a_run_file_and_the_command_line_have_slots(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    slots_module._list_nvidia_devices.cache_clear()
    path, out = written(tmp_path, SLOTS), tmp_path / "out"
    assert main(["tune", str(path), "--out", str(out)]) == 0
    loaded = Optimizer.load(out / "run.jsonl")
    assert len(loaded.trials) == 6
    slots = {(t.extra["worker"]["name"], t.value) for t in loaded.trials}
    assert slots == {("a", 7.0), ("b", 8.0)}  # the build has no device
    assert "2 workers, idle" in capsys.readouterr().out
    best = json.loads((out / "best.json").read_text())
    assert best["workers"] == 2
    assert 0.0 <= best["idle"] <= 1.0
    assert main(["show", str(out / "run.jsonl")]) == 0
    assert "2 workers, idle" in capsys.readouterr().out
    other = ["tune", str(path), "--out", str(out), "--resume", "--slots", "cuda:0,cuda:1"]
    with pytest.raises(JournalError, match="device type"):
        runs.tune(build_parser().parse_args(other))
    fresh = tmp_path / "fresh"
    assert main(["tune", str(path), "--out", str(fresh), "--slots", "cuda:3"]) == 0
    assert {t.value for t in Optimizer.load(fresh / "run.jsonl").trials} == {3.0}


def test_tune_calls_a_function_in_one_process_per_slot(tmp_path):
    space, journal = Space({"x": [1, 2, 3, 4, 5, 6]}), tmp_path / "j"
    result = tune(
        executor_targets.slot_number,
        space,
        stop=MaxEvals(6),
        workers=Workers(slots=TWO),
        storage=journal,
        progress=False,
    )
    by_process = {(t.extra["worker"]["name"], t.value) for t in result.trials}
    assert len(by_process) == 2
    assert result.optimizer.options.context == {"device type": "T4"}
    other = [{**TWO[0], "type": "A100"}]
    with pytest.raises(JournalError, match="device type"):
        tune(
            len,
            space,
            stop=MaxEvals(7),
            workers=Workers(slots=other),
            storage=journal,
            progress=False,
        )
    with pytest.raises(ValueError, match="leave executor out"):
        tune(len, space, stop=MaxEvals(7), workers=Workers(slots=TWO, executor=executor_targets))
    with pytest.raises(EvaluatorError, match="workers = 3"):
        ProcessLanes(3, slots=TWO)


def test_a_process_that_is_killed_costs_a_trial_of_its_slot_one_of_three_attempts(tmp_path):
    function = partial(executor_targets.die_in_slot, str(tmp_path))
    space = Space({"x": range(6)})
    result = tune(
        function,
        space,
        stop=MaxEvals(6),
        workers=Workers(slots=TWO),
        strategy="exhaustive",
        progress=False,
    )
    assert [t["x"] for t in result.trials if t.failure] == [0]
    (message,) = (t.message for t in result.trials if t.failure)
    assert "handed out 3 times" in str(message)
    begun = [int(line.split()[0]) for line in (tmp_path / "begun").read_text().splitlines()]
    assert sorted(begun) == [0, 0, 0, 1, 1, 2, 2, 3, 4, 5]
    numbers = {float(slot["environment"]["SLOT"]) for slot in TWO}
    assert {t.value for t in result.trials if not t.failure} <= numbers
