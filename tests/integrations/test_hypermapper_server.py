"""A whole conversation with clients that behave, and with clients that do not; both ends in memory."""

import copy
import json
import os
import random
from collections import deque
from pathlib import Path

import pytest

from baco_like import Optimizer
from baco_like.exceptions import (
    BacoError,
    EvaluatorError,
    JournalError,
    RunFileError,
    StrategyError,
)
from baco_like.integrations import read_scenario
from baco_like.integrations.hypermapper.messages import split_cells
from baco_like.integrations.hypermapper.server import ServeOptions, serve

BESIDE = Path(__file__).parents[3] / "shared" / "data"
DATA = Path(os.environ.get("BACO_LIKE_DATA", BESIDE)) / "scenarios"

FIELDS = {
    "application_name": "app",
    "optimization_objectives": ["runtime"],
    "design_of_experiment": {"number_of_samples": 4},
    "optimization_iterations": 5,
    "feasible_output": {"enable_feasible_predictor": True},
    "input_parameters": {
        "tile": {
            "parameter_type": "ordinal",
            "values": [1, 2, 4, 8, 16],
            "transform": "log",
            "parameter_default": 4,
        },
        "n": {"parameter_type": "integer", "values": [0, 30], "parameter_default": 3},
        "eps": {"parameter_type": "real", "values": [0, 1], "parameter_default": 0},
        "p": {
            "parameter_type": "permutation",
            "values": [3],
            "parameter_default": [0, 1, 2],
            "constraints": ["p_i0 < p_i2"],
        },
    },
}


def fields(**other):
    return {**copy.deepcopy(FIELDS), **other}


def cost(cells):
    return abs(int(cells["tile"]) - 8) + int(cells["n"]) + float(cells["eps"])


def runs(cells):
    return int(cells["tile"]) < 16


class Client:
    """Answers like a compiler's driver; ``reply`` may spoil the lines of an answer before they go."""

    def __init__(self, names="{parameters},runtime,Valid", failure="-1", reply=lambda lines: lines):
        self.names, self.failure, self.reply = names, failure, reply
        self.heard = []
        self.requests = []
        self._replies = deque()

    def write(self, text):
        lines = text.splitlines()
        self.heard += lines
        if lines[0].startswith("Request "):
            self.requests.append(
                [dict(zip(split_cells(lines[1]), split_cells(r), strict=True)) for r in lines[2:]]
            )
            assert lines[0] == f"Request {len(lines) - 2}"
            columns = self.names.format(parameters=lines[1])
            answer = [columns] + [
                self._row(split_cells(columns), cells) for cells in self.requests[-1]
            ]
            text = "".join(line + "\n" for line in self.reply(answer))
            self._replies += text.splitlines(keepends=True)

    def _row(self, columns, cells):
        known = {
            **cells,
            "runtime": str(cost(cells)) if runs(cells) else self.failure,
            "Valid": str(runs(cells)),
        }
        return ",".join(known.get(name, "0") for name in columns)

    def flush(self):
        pass

    def readline(self, size=-1):
        return self._replies.popleft()[:size] if self._replies else ""

    @property
    def asked(self):
        return [tuple(cells.items()) for request in self.requests for cells in request]


def talk(client, source, path, **options):
    """Serve in a folder; return the reports and the lines of the file of samples."""
    reports = []
    options = {"strategy": "random_search", "allow_dirs": [path], **options}
    found = read_scenario({"run_directory": str(path), **source})
    serve(found, client, client, reports.append, ServeOptions(**options))
    return reports, found.output.read_text().splitlines()


def test_a_session_word_for_word(tmp_path):
    client = Client()
    reports, rows = talk(client, fields(), tmp_path, strategy=None)
    assert client.heard[:3] == ["Request 4", "tile,n,eps,p", "4,3,0.0,(0, 1, 2)"]
    assert [len(request) for request in client.requests] == [4, 1, 1, 1, 1, 1]
    assert client.heard[-1] == "End of HyperMapper"
    assert len(client.heard) == 6 * 2 + 9 + 1
    for cells in (cells for request in client.requests for cells in request):
        assert cells["tile"] in ("1", "2", "4", "8", "16")
        assert cells["n"].isdecimal()
        assert "." in cells["eps"] or "e" in cells["eps"]
        assert cells["p"] in ("(0, 1, 2)", "(0, 2, 1)", "(1, 0, 2)")
    assert len(set(client.asked)) == 9
    assert rows[0] == "tile,n,eps,p,runtime,Valid,Timestamp"
    assert rows[1].startswith('4,3,0.0,"(0, 1, 2)",7.0,True,')
    assert len(rows) == 10
    assert "ended: 9 evaluations; best " in reports[-1]
    assert not list(tmp_path.glob("*.lock"))


@pytest.mark.parametrize("failure", ["-1", "2147483647", "nan", "-nan", "", "inf"])
@pytest.mark.parametrize(("yes", "no"), [("True", "False"), ("true", "false"), ("1", "0")])
def test_failures_in_every_spelling(tmp_path, failure, yes, no):
    words = {"enable_feasible_predictor": True, "true_value": yes, "false_value": no}
    journal = tmp_path / "run.jsonl"
    client = Client(failure=failure)
    talk(client, fields(feasible_output=words), tmp_path, journal=journal)
    trials = Optimizer.load(journal).trials
    assert {trial.failure for trial in trials if trial["tile"] == 16} == {"runtime"}
    assert {trial.failure for trial in trials if trial["tile"] < 16} == {None}
    assert {trial.extra["reported"] for trial in trials if trial.failure} == {failure}


def test_an_objective_that_is_not_a_number_is_a_failure(tmp_path):
    client = Client(
        failure="nan", reply=lambda lines: [line.replace("False", "True") for line in lines]
    )
    _, rows = talk(client, fields(), tmp_path)
    assert any(",nan,False," in row for row in rows)
    assert not any(",nan,True," in row for row in rows)


@pytest.mark.parametrize(
    "names",
    [
        "{parameters},runtime,Valid",
        "Valid,runtime,p,eps,n,tile",
        "energy,{parameters},Timestamp,Valid,runtime,comment",
        "runtime,Valid",
        "{parameters},runtime,Valid,",
    ],
)
def test_columns_in_any_order_with_additional_columns(tmp_path, names):
    client = Client(names=names)
    reports, rows = talk(client, fields(), tmp_path)
    assert len(reports) == 1
    for row, asked in zip(rows[1:], client.asked, strict=True):
        cells = dict(asked)
        assert row.startswith(f'{cells["tile"]},{cells["n"]},{cells["eps"]},"{cells["p"]}",')
        assert row.split(",")[-2] == str(runs(cells))
        assert float(row.split(",")[-3]) == (cost(cells) if runs(cells) else -1)


def check_values(rows):
    for row in rows[1:]:
        cells = dict(zip(rows[0].split(","), split_cells(row), strict=True))
        assert float(cells["runtime"]) == (cost(cells) if runs(cells) else -1)


def test_rows_in_another_order_are_assigned_by_their_parameters(tmp_path):
    chance = random.Random(1)

    def shuffled(lines):
        return lines[:1] + chance.sample(lines[1:], len(lines) - 1)

    client = Client(reply=shuffled)
    reports, rows = talk(client, fields(design_of_experiment={"number_of_samples": 8}), tmp_path)
    check_values(rows)
    assert len(reports) == 1


def test_rows_with_other_parameters_are_assigned_by_order(tmp_path):
    """As in the original, which does not read them; but it is said."""
    client = Client(
        "?,?,?,?,runtime,Valid",
        reply=lambda lines: [lines[0].replace("?,?,?,?", "tile,n,eps,p"), *lines[1:]],
    )
    reports, rows = talk(client, fields(), tmp_path)
    check_values(rows)
    assert sum("in the order of the request" in line for line in reports) == 1


def test_windows_line_ends_and_blank_lines(tmp_path):
    client = Client(reply=lambda lines: ["", *(line + "  \r" for line in lines)])
    _, rows = talk(client, fields(), tmp_path)
    assert len(rows) == 10


def died(client, source, path, **options):
    with pytest.raises(EvaluatorError) as error:
        talk(client, source, path, **options)
    return str(error.value), (path / "app_output_samples.csv").read_text().splitlines()


def test_a_client_that_dies_in_the_middle_of_a_reply(tmp_path):
    client = Client()
    client.reply = lambda lines: lines if len(client.requests) < 3 else lines[:1]
    message, rows = died(client, fields(), tmp_path)
    assert message.startswith("the client has closed its end, after 5 of 9 evaluations")
    assert "app_output_samples.csv" in message
    assert "resume_optimization" in message
    assert "\n" not in message
    assert len(rows) == 6


def test_complete_lines_of_a_torn_reply_are_kept(tmp_path):
    """A number may be cut off too, so the torn line does not count."""
    client = Client(reply=lambda lines: lines[:4])
    message, rows = died(client, fields(), tmp_path)
    assert "after 3 of 9 evaluations" in message
    assert len(rows) == 4

    class Torn(Client):
        def readline(self, size=-1):
            line = super().readline(size)
            return line if self._replies else line[:-2]

    message, rows = died(Torn(), fields(), tmp_path)
    assert "which is not recorded" in message
    assert "after 3 of 9 evaluations" in message


def test_a_client_that_does_not_read(tmp_path):
    class Deaf(Client):
        def write(self, text):
            if len(self.requests) == 1:
                raise BrokenPipeError
            super().write(text)

    message, rows = died(Deaf(), fields(), tmp_path)
    assert message.startswith("the client does not read any more, after 4 of 9 evaluations")
    assert len(rows) == 5


@pytest.mark.parametrize(
    ("spoil", "named"),
    [
        (lambda lines: ["Segmentation fault", *lines], "no column 'runtime'"),
        (lambda lines: [lines[0].replace(",Valid", ""), *lines[1:]], "no column 'Valid'"),
        (lambda lines: [lines[0] + ",runtime", *lines[1:]], "two columns 'runtime'"),
        (lambda lines: [lines[0], lines[1] + ",7", *lines[2:]], "cells for the 6 columns"),
        (lambda lines: [lines[0], "Killed", *lines[2:]], "cells for the 6 columns"),
        (lambda lines: [line.replace("True", "perhaps") for line in lines], "'perhaps' is neither"),
    ],
)
def test_a_malformed_reply_ends_the_run_and_keeps_the_rows(tmp_path, spoil, named):
    client = Client()
    client.reply = lambda lines: lines if len(client.requests) < 2 else spoil(lines)
    message, rows = died(client, fields(), tmp_path)
    assert named in message
    assert "after 4 of 9 evaluations" in message
    assert len(rows) == 5


def test_a_run_resumes_from_the_file_of_samples(tmp_path):
    """With all names at their defaults, where the original empties the file first."""
    first = Client()
    first.reply = lambda lines: lines if len(first.requests) < 4 else []
    _, before = died(first, fields(), tmp_path)
    assert len(before) == 7
    second = Client()
    reports, after = talk(second, fields(resume_optimization=True), tmp_path)
    assert after[:7] == before
    assert len(after) == 10
    assert [len(request) for request in second.requests] == [1, 1, 1]
    assert not set(first.asked[:6]) & set(second.asked)
    assert [path.name for path in tmp_path.iterdir()] == ["app_output_samples.csv"]
    assert len(reports) == 1


def test_earlier_rows_count_against_the_design_first(tmp_path):
    (tmp_path / "old.csv").write_text(
        'tile,n,eps,p,runtime,Valid,timestamp\n8,1,0.5,"(0, 1, 2)",1.5,True,7\n'
        '2,1,0.5,"(2, 1, 0)",9,True,8\n'
    )
    source = fields(resume_optimization=True, resume_optimization_file="old.csv")
    client = Client()
    reports, rows = talk(client, source, tmp_path)
    assert [len(request) for request in client.requests] == [2, 1, 1, 1, 1, 1]
    assert client.heard[2] == "4,3,0.0,(0, 1, 2)"
    assert rows[1:3] == ['8,1,0.5,"(0, 1, 2)",1.5,True,7', '2,1,0.5,"(2, 1, 0)",9.0,True,8']
    assert reports[0].startswith("1 of 2 rows of ")
    assert reports[0].endswith("are outside the space")
    assert (tmp_path / "old.csv").exists()


def test_a_file_of_another_run_is_never_overwritten(tmp_path):
    _, first = talk(Client(), fields(), tmp_path)
    reports, second = talk(Client(), fields(), tmp_path, seed=1)
    talk(Client(), fields(), tmp_path, seed=2)
    assert (tmp_path / "app_output_samples.csv.1").read_text().splitlines() == first
    assert (tmp_path / "app_output_samples.csv.2").read_text().splitlines() == second
    assert "of an earlier run is now" in reports[0]


def test_a_wrong_resume_file_changes_nothing(tmp_path):
    path = tmp_path / "app_output_samples.csv"
    path.write_text("tile,n\n1,2\n")
    with pytest.raises(RunFileError, match="column 'eps' once"):
        talk(Client(), fields(resume_optimization=True), tmp_path)
    assert path.read_text() == "tile,n\n1,2\n"
    assert [found.name for found in tmp_path.iterdir()] == [path.name]


def test_a_run_resumed_from_a_journal_equals_an_uninterrupted_one(tmp_path):
    whole = Client()
    talk(whole, fields(), tmp_path / "a", strategy=None, journal=tmp_path / "a.jsonl")
    cut = Client()
    cut.reply = lambda lines: lines if len(cut.requests) < 3 else []
    died(cut, fields(), tmp_path / "b", strategy=None, journal=tmp_path / "b.jsonl")
    rest = Client()
    _, rows = talk(rest, fields(), tmp_path / "b", strategy=None, journal=tmp_path / "b.jsonl")
    assert rest.requests[0] == cut.requests[2]  # unanswered requests are sent again
    assert cut.asked[:5] + rest.asked == whole.asked
    assert len(rows) == 10
    assert [path.name for path in (tmp_path / "b").iterdir()] == ["app_output_samples.csv"]
    with pytest.raises(JournalError, match="another run"):
        talk(Client(), fields(), tmp_path / "c", seed=5, journal=tmp_path / "b.jsonl")


def test_pending_trials_of_a_batch_come_first_in_the_next(tmp_path):
    source = fields(batch_size=3, optimization_iterations=2)
    cut = Client()
    cut.reply = lambda lines: lines if len(cut.requests) < 2 else lines[:2]
    died(cut, source, tmp_path, journal=tmp_path / "run.jsonl")
    rest = Client()
    _, rows = talk(rest, source, tmp_path, journal=tmp_path / "run.jsonl")
    assert [len(request) for request in rest.requests] == [3, 2]
    assert rest.requests[0][:2] == cut.requests[1][1:]
    assert len(set(cut.asked + rest.asked)) == 10
    assert len(rows) == 11


def test_the_same_seed_suggests_the_same(tmp_path):
    clients = [Client() for _ in range(3)]
    for number, client in enumerate(clients):
        talk(client, fields(), tmp_path / str(number), seed=min(number, 1))
    assert clients[1].asked == clients[2].asked != clients[0].asked


def test_results_of_another_device_choose_the_first_points(tmp_path):
    first, second, client = tmp_path / "a", tmp_path / "b", Client()
    talk(Client(), fields(optimization_iterations=20), first)
    files = [first / "app_output_samples.csv"]
    _, rows = talk(client, fields(), second, strategy="auto", priors=files)
    assert len(rows) == 1 + 9  # none of the other device's results is among them
    assert min(cost(cells) for request in client.requests[:3] for cells in request) < 10
    wrong = tmp_path / "wrong.csv"
    wrong.write_text("a,b,runtime\n1,2,3\n")
    with pytest.raises(BacoError, match=r"wrong\.csv"):
        talk(Client(), fields(), tmp_path / "c", strategy="auto", priors=[wrong])
    assert not (tmp_path / "c").exists()


@pytest.mark.parametrize(
    ("objectives", "model", "strategy", "remedy"),
    [
        (["runtime"], "random_forest", None, 'write "models": {"model": "gaussian_process"} into'),
        (
            ["runtime", "size"],
            "random_forest",
            None,
            'write "models": {"model": "gaussian_process"',
        ),
        (["runtime", "size"], "gaussian_process", "nsga2", "inform; take the strategy auto, or"),
        (["runtime", "size"], "random_forest", "nsga2", "scenario and take the strategy auto, or"),
    ],
)
def test_a_strategy_that_cannot_use_a_prior_is_refused_in_the_words_of_the_scenario(
    tmp_path, objectives, model, strategy, remedy
):
    prior = tmp_path / "prior.csv"
    rows = [f'{tile},3,0.5,"(0, 1, 2)",{tile}.5,{9 - tile}' for tile in (1, 2, 4, 8)]
    prior.write_text("\n".join(["tile,n,eps,p,runtime,size", *rows]))
    source = fields(optimization_objectives=objectives, models={"model": model})
    with pytest.raises(StrategyError) as caught:
        talk(Client(), source, tmp_path / "c", strategy=strategy, priors=[prior])
    assert remedy in str(caught.value)
    assert not (tmp_path / "c").exists()


def test_requests_have_the_batch_size(tmp_path):
    client = Client()
    talk(client, fields(batch_size=3, optimization_iterations=2), tmp_path)
    assert [len(request) for request in client.requests] == [4, 3, 3]


def test_proposals_are_computed_while_the_client_measures(tmp_path):
    client, path = Client(), tmp_path / "run.jsonl"
    talk(client, fields(optimization_iterations=6), tmp_path, ahead=2, journal=path)
    assert [len(request) for request in client.requests] == [4, *[1] * 6]
    assert len(set(client.asked)) == 10
    events = [json.loads(line) for line in path.read_text().splitlines()]
    rows = [row for event in events for row in event.get("trials", [])]
    assert {row["ahead"] for row in rows if row["origin"] == "strategy"} & {1, 2}


def test_an_exhausted_space_ends_the_run(tmp_path):
    small = {"tile": FIELDS["input_parameters"]["tile"]}
    client = Client(names="{parameters},runtime,Valid")
    client._row = lambda columns, cells: f"{cells['tile']},1,True"
    reports, rows = talk(client, fields(input_parameters=small), tmp_path)
    assert len(rows) == 6
    assert client.heard[-1] == "End of HyperMapper"
    assert "ended: the space is exhausted" in reports[-1]


def test_time_ends_the_run_after_the_reply(tmp_path):
    client = Client()
    talk(client, fields(time_budget=1e-9), tmp_path)
    assert client.heard == ["End of HyperMapper"]


@pytest.mark.parametrize("found", ["", "int main() {}\n", "tile,n,eps,p,runtime,Timestamp"])
def test_a_file_that_is_no_file_of_samples_is_not_taken_over(tmp_path, found):
    path = tmp_path / "app_output_samples.csv"
    path.write_text(found)
    with pytest.raises(RunFileError, match="exists and is not a file of samples"):
        talk(Client(), fields(log_file="x.log"), tmp_path, journal=tmp_path / "run.jsonl")
    assert path.read_text() == found
    assert [path.name for path in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: path.symlink_to("secret")])
def test_a_pipe_a_folder_or_a_link_is_no_file_of_samples(tmp_path, make):
    (tmp_path / "secret").write_text("tile,n,eps,p,runtime,Valid,Timestamp\n")
    make(tmp_path / "app_output_samples.csv")
    with pytest.raises(RunFileError, match="exists and is not a file of samples"):
        talk(Client(), fields(), tmp_path)
    assert len(list(tmp_path.iterdir())) == 2


def test_a_pipe_to_resume_from_is_refused(tmp_path):
    os.mkfifo(tmp_path / "old")
    with pytest.raises(RunFileError, match="old is not a file to resume from"):
        talk(Client(), fields(resume_optimization=True, resume_optimization_file="old"), tmp_path)


@pytest.mark.parametrize("name", ["a" * 300, "a/" * 3000, "a\0b", "\ud800"])
def test_an_impossible_name_to_resume_from_is_an_error(tmp_path, name):
    with pytest.raises(RunFileError, match="cannot be read"):
        talk(Client(), fields(resume_optimization=True, resume_optimization_file=name), tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["text", "link"])
def test_a_file_with_the_name_of_the_lock_is_kept(tmp_path, kind):
    lock, outside = tmp_path / "run" / "app.lock", tmp_path / "outside"
    lock.parent.mkdir()
    if kind == "text":
        lock.write_text("versions of a package manager")
    else:
        lock.symlink_to(outside)
    with pytest.raises(JournalError, match=r"app\.lock"):
        talk(Client(), fields(output_data_file="app"), tmp_path / "run")
    assert os.path.lexists(lock)
    assert not outside.exists()


def test_files_are_in_the_current_folder_unless_another_is_permitted(tmp_path, monkeypatch):
    current, other = tmp_path / "current", tmp_path / "other"
    current.mkdir()
    other.mkdir()
    (current / "link").symlink_to(other)
    monkeypatch.chdir(current)
    for folder in ["../other", "link", "link/new", str(other), ".."]:
        with pytest.raises(RunFileError, match=r"outside the current folder; .*pass --allow-dir"):
            talk(Client(), fields(), folder, allow_dirs=())
    assert list(other.iterdir()) == []
    for folder in [".", "new", str(current)]:
        talk(Client(), fields(), folder, allow_dirs=())
    talk(Client(), fields(), "link", allow_dirs=[other])
    assert (other / "app_output_samples.csv").exists()


@pytest.mark.parametrize("line", ["1" * 2**20 + "\n", " " * 2**20 + "1\n"])
def test_a_long_line_of_a_client_is_refused(tmp_path, line):
    class Endless(Client):
        def readline(self, size=-1):
            assert 0 < size < 2**21
            return line[:size]

    message, rows = died(Endless(), fields(), tmp_path)
    assert message.startswith("the client's line has more than 1048576 characters, after 0 of 9")
    assert len(rows) == 1


def test_a_long_objective_is_refused(tmp_path):
    """The journal would keep it."""
    client = Client(failure="x" * 1001)
    message, _ = died(client, fields(), tmp_path)
    assert "has 1001 characters" in message


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "taken").write_text("")
    with pytest.raises(RunFileError, match="cannot write"):
        talk(Client(), fields(), tmp_path / "taken")


@pytest.mark.skipif(not DATA.is_dir(), reason="no public data: set BACO_LIKE_DATA")
@pytest.mark.parametrize(
    "name",
    ["base_hartmann6_discrete", "branin4_scenario_feas", "harris", "perm", "rs_cot_1024_scenario"],
)
def test_the_public_scenarios(tmp_path, name, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = read_scenario(DATA / f"{name}.json")
    objective, said = found.layout.objective, found.layout.feasibility
    client = Client(names=f"{{parameters}},{objective},{said.name}")
    client._row = lambda columns, cells: ",".join([*cells.values(), "1.5", said.yes])
    reports = []
    serve(found, client, client, reports.append, ServeOptions(strategy="random_search"))
    assert len(found.output.read_text().splitlines()) == found.evaluations + 1
    whole = [n for n, p in found.space.parameters.items() if "values" in p.to_dict()]
    for cells in client.requests[0]:
        assert found.space.contains(found.layout.read(cells))
        if name != "base_hartmann6_discrete":
            assert all(cells[column].isdecimal() for column in whole)
