"""The report of a run: every section, tables without JavaScript, nothing from the network, no error in a browser."""

import copy
import dataclasses
import json
import re
import shutil
import subprocess
import threading
import time
from html.parser import HTMLParser
from types import SimpleNamespace

import hypothesis.strategies as st
import pytest
from hypothesis import given

from baco_like import Aim, Categorical, Optimizer, Ordinal, Permutation, Space, cli
from baco_like._output import show
from baco_like._threads import thread_limit
from baco_like.evaluators.command.compiler_options import describe_compiler
from baco_like.explanations import Dependence, DependencePoint, estimate_outlook
from baco_like.records.trial import CONFIRMATION, CONTROL
from baco_like.reporting import build_report, charts, understanding
from baco_like.reporting import summary as report_summary
from baco_like.reporting.facts import RunFacts
from baco_like.reporting.page import ReportChart, ReportTable
from baco_like.reporting.report import write_with_notes
from baco_like.running.journal_view import JournalView, describe_run
from baco_like.running.sentences import format_summary

pytest.importorskip("vl_convert")

SECTIONS = (
    *("winner", "search", "end", "importance", "choices"),
    *("failures", "peak", "metrics", "trust", "reproduce"),
)
BROWSER = next((p for p in map(shutil.which, ("chromium", "google-chrome")) if p), None)
HOSTILE = "</script><script>alert(1)</script><!-- & \"'"


class Page(HTMLParser):
    """The texts of each section, its tables, and the addresses that elements load from."""

    def __init__(self, text):
        super().__init__()
        self.sections, self.addresses, self.tags, self._name, self._skip = {}, [], [], None, False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.tags.append(tag)
        self._skip = tag in ("script", "style")
        self.addresses += [attrs[k] for k in ("src", "href", "action", "data") if k in attrs]
        if tag == "section":
            self._name = attrs["id"]
            self.sections[self._name] = {"text": "", "rows": 0, "charts": 0}
        elif self._name and tag == "tr":
            self.sections[self._name]["rows"] += 1
        elif self._name and attrs.get("class") == "chart":
            self.sections[self._name]["charts"] += 1

    def handle_endtag(self, tag):
        self._skip = False
        if tag == "section":
            self._name = None

    def handle_data(self, data):
        if self._name and not self._skip:
            self.sections[self._name]["text"] += data


SPACE = Space(
    {
        "tile": [8, 16, 32, 64],
        "unroll": [1, 2, 4, 8],
        "name": ["a", HOSTILE],
        "order": Permutation(["i", "j", "k"], default=["i", "j", "k"]),
    },
    constraints=["tile % unroll == 0"],
)


def value_of(trial):
    return 2.0 + abs(trial["tile"] - 32) / 16 + 0.3 * trial["order"].index("k")


@pytest.fixture(scope="module")
def journal(tmp_path_factory):
    path = tmp_path_factory.mktemp("run") / "run.jsonl"
    optimizer = Optimizer(
        SPACE,
        Aim({"time": "minimize"}, ["size <= 60"]),
        strategy="random_search",
        storage=path,
        context={"[objective] unit": "ms", "[objective] peak": 1.5},
    )
    for _ in range(24):
        trial = optimizer.suggest()
        if trial["unroll"] == 8:
            optimizer.observe(trial, failed="compile", message=f"{HOSTILE}\nmore")
        else:
            value = value_of(trial)
            extra = {"seconds": {"compile": 0.25, "run": 0.5}}
            observed = {"time": [value, 1.02 * value], "size": float(trial["tile"])}
            optimizer.observe(trial, observed, extra=extra)
    return path


@pytest.fixture(scope="module")
def known(journal):
    """Return the facts of the run with its explanation, which takes a second; not to be changed."""
    facts = RunFacts(journal)
    assert facts.explained
    return facts


@pytest.fixture
def facts(known):
    """Return a copy of the facts that a test may change."""
    return copy.copy(known)


@pytest.fixture(scope="module")
def text(journal):
    return build_report(journal)


@pytest.fixture(scope="module")
def page(text):
    return Page(text)


def test_every_question_has_a_section_with_a_table_or_an_answer(page):
    assert tuple(page.sections) == SECTIONS
    for name, section in page.sections.items():
        assert section["rows"] > 1, name  # tables need no JavaScript
    charted = {name for name, section in page.sections.items() if section["charts"]}
    assert charted == {"search", "importance", "choices", "metrics", "trust"}


def test_the_page_loads_nothing_and_shows_texts_of_the_journal_as_text(text, page):
    assert all(address.startswith("#") for address in page.addresses)
    assert not {"link", "img", "iframe", "object", "embed", "base"} & set(page.tags)
    assert "default-src 'none'" in text
    assert len(text.encode()) < 2 * 10**6
    assert "prefers-color-scheme: dark" in text
    assert "@media print" in text
    assert page.tags.count("script") == 3
    assert "</script><script>alert" not in text
    body = text[text.index("<body") : text.index('id="specifications"')]
    body = re.sub(r"<(style|script).*?</\1>", "", body, flags=re.DOTALL)
    assert not re.search(r"\d%", body)  # percentages have one style


def test_the_answers_are_those_of_the_run(page, journal):
    best = Optimizer.load(journal).best
    for name, words in (
        ("winner", f"Trial {best.id} is the best: time = {best.value:.4g} ms"),
        ("importance", "From the default to the winnerThe value after each change"),
        ("failures", "unroll8"),
        ("metrics", "size <= 60"),
        ("peak", "of the stated peak, 1.5"),
        ("trust", "lie in their 90 % intervals"),
        ("trust", "Repeats of one configuration spread by 1.4 %"),
        ("reproduce", "numpy"),
        ("reproduce", "number of CPUs"),
    ):
        assert words in page.sections[name]["text"].replace("\n", "")


@pytest.mark.parametrize(
    ("weak", "name", "gain"),
    [
        (
            (-0.1, -0.2, 0.1),
            "together less than 1 %, not distinguishable from nothing",
            "-0.2 (-0.2 %)",
        ),
        ((-0.8, -0.7, -0.5), "each less than 1 % and uncertain, together more", "-2 (-2.0 %)"),
    ],
)
def test_the_path_has_single_changes_and_one_row_for_weak_ones(facts, weak, name, gain):
    path = facts.explained.ablation
    known = dataclasses.replace(path.origin, parameters=(), value=100.0, measured=True)
    changes = {"level": -5.0, "tile": -2.0, **dict(zip(("f1", "f2", "f3"), weak, strict=True))}
    steps, value = [], 100.0
    for changed, change in changes.items():
        value += change
        known_by = {"low": 90.0, "high": 101.0, "measured": changed == "f3"}
        step = dataclasses.replace(known, value=value, **known_by)
        own = {"parameters": (changed,), "before": (0,), "after": (1,), "change": change}
        low, high = (-6.0, -4.0) if changed == "level" else (-9.0, 9.0)
        steps.append(dataclasses.replace(step, **own, change_low=low, change_high=high))
    path = dataclasses.replace(path, origin=known, steps=tuple(steps))
    facts.__dict__["explained"] = dataclasses.replace(facts.explained, ablation=path)
    section = understanding.importance_section(facts)
    table = next(p for p in section.parts if isinstance(p, ReportTable) and p.head[0] == "change")
    assert [row[0].partition(":")[0] for row in table.rows] == [
        "start",
        "level",
        "tile",
        f"3 further changes, {name}",
    ]
    assert [row[2] for row in table.rows] == [
        *("measured", "predicted, 90 to 101", "predicted, 90 to 101", "measured")
    ]
    assert [row[3] for row in table.rows[1:]] == ["-5 (-5.0 %)", "-2 (-2.0 %)", gain]
    assert [row[4] for row in table.rows[:3]] == ["", "", "uncertain"]


def test_only_choices_that_the_intervals_support_are_named(facts):
    best = facts.findings.best.config

    def point(choice, value, spread, runs=1.0):
        return DependencePoint((choice,), value, value - spread, value + spread, runs)

    def answer(*points):
        table = Dependence(("tile",), points)
        explained = dataclasses.replace(facts.explained, dependence=(table,))
        changed = copy.copy(facts)
        changed.__dict__["explained"] = explained
        return understanding.choices_section(changed).answer

    one, other = (n for n in (8, 16) if n != best["tile"])
    has = best["tile"]
    assert "no choice is better" in answer(point(has, 2.08, 4.0), point(one, 2.0, 4.0))
    assert f"tile = {has}." in answer(point(has, 2.0, 0.1), point(one, 3.0, 0.1))
    beaten = answer(point(one, 2.0, 0.1), point(other, 2.05, 0.1), point(has, 3.0, 0.1))
    assert f"tile = {one} or {other} (the winner has {has})." in beaten
    failing = answer(point(one, 1.0, 0.1, runs=0.2), point(has, 2.0, 0.1), point(other, 3.0, 0.1))
    assert f"tile = {has}." in failing


def test_metrics_of_trials_beyond_a_limit_are_shown_as_whole_numbers(facts):
    assert any(trial["tile"] == 64 and trial.failure == "limit" for trial in facts.trials)
    table = next(
        p for p in report_summary.metrics_section(facts).parts if isinstance(p, ReportTable)
    )
    row = next(row for row in table.rows if row[0] == "size")
    assert row[5] == 64.0
    assert show(41234.0) == "41234"
    assert show(0.5) == "0.5"
    parts = report_summary.metrics_section(facts).parts
    assert not any(isinstance(p, ReportTable) and p.head[0] == "input" for p in parts)  # one metric


@pytest.mark.parametrize("direction", ["minimize", "maximize"])
def test_several_inputs_are_compared_with_the_best_of_each(tmp_path, direction):
    optimizer = Optimizer({"x": [1, 2, 3]}, {"speed": direction}, storage=tmp_path / "run.jsonl")
    values = {1: (10.0, 20.0), 2: (12.0, 12.0), 3: (30.0, 9.0)}
    for _ in range(3):
        trial = optimizer.suggest()
        small, large = values[trial["x"]]
        mean = {1: 3.0, 2: 1.0 if direction == "minimize" else 9.0, 3: 4.0}[trial["x"]]
        metrics = {"speed_small": small, "speed_large": large, "size": 7.0}
        optimizer.observe(trial, {"speed": mean, **metrics})
    section = report_summary.metrics_section(RunFacts(tmp_path / "run.jsonl"))
    table = next(p for p in section.parts if isinstance(p, ReportTable) and p.head[0] == "input")
    losses = ["20.0 %", "33.3 %"] if direction == "minimize" else ["60.0 %", "40.0 %"]
    assert [row[0] for row in table.rows] == ["speed_small", "speed_large"]
    assert [row[-1] for row in table.rows] == losses
    assert "For each of 2 inputs alone, the winner is at most" in section.answer


def test_the_winner_of_many_parameters_is_shown_by_its_changes(tmp_path):
    names = [f"p{i}" for i in range(20)]
    optimizer = Optimizer(
        Space({n: Ordinal([1, 2], default=1) for n in names}), storage=tmp_path / "run.jsonl"
    )
    winner = dict.fromkeys(names, 1) | {"p3": 2}
    optimizer.observe(dict.fromkeys(names, 1), 2.0)
    optimizer.observe(winner, 1.0)
    section = report_summary.winner_section(RunFacts(tmp_path / "run.jsonl"))
    table = section.parts[-1]
    assert table.rows == [["p3", "1", "2"]]
    assert table.caption == "1 of 20 parameters differ; the last section has all values"


@pytest.mark.parametrize("further", [0, 20])
def test_the_winner_and_the_default_may_have_different_active_parameters(tmp_path, further):
    others = {f"p{i}": Ordinal([1, 2], default=1) for i in range(further)}
    schedule = Categorical(["plain", "tiled", "fused"], default="plain")
    parts = {"tile": Ordinal([8, 16], default=8), "width": Ordinal([1, 2], default=1)}
    space = Space(
        {"schedule": schedule, **parts, **others},
        when={"tile": "schedule == 'tiled'", "width": "schedule == 'plain'"},
    )
    optimizer = Optimizer(space, storage=tmp_path / "run.jsonl")
    optimizer.observe({"schedule": "plain", "width": 1, **dict.fromkeys(others, 1)}, 3.0)
    optimizer.observe({"schedule": "fused", **dict.fromkeys(others, 1)}, 2.0)
    optimizer.observe({"schedule": "tiled", "tile": 8, **dict.fromkeys(others, 1)}, 1.0)
    facts = RunFacts(tmp_path / "run.jsonl")
    changed = [["schedule", "plain", "tiled"], ["tile", "-", "8"], ["width", "1", "-"]]
    assert sorted(report_summary.winner_section(facts).parts[-1].rows) == changed
    rows = report_summary.search_section(facts).parts[-1].rows
    assert [row[-1] for row in rows] == [
        "",
        "schedule: plain → fused, width: 1 → -",
        "schedule: fused → tiled, tile: - → 8",
    ]
    text = format_summary(facts.findings)
    assert re.search(r"tile +- +8\n", text)
    assert re.search(r"width +1 +-\n", text)
    assert ("20 more have their default" in text) == (further > 0)


@pytest.mark.parametrize(
    ("controls", "told"),
    [
        ((1.2, 1.4), "Measured again 2 times during the search, the median was 1.3."),
        ((0.9,), "Measured again once during the search, the median was 0.9."),
        ((), None),
    ],
)
def test_measurements_of_the_winner_during_the_search_are_told(tmp_path, controls, told):
    optimizer = Optimizer({"x": [1, 2, 3]}, storage=tmp_path / "run.jsonl")
    for value in (3.0, 1.0, 2.0):
        optimizer.observe(optimizer.suggest(), value)
    best = optimizer.best
    for value in controls:
        optimizer.observe(optimizer.measure_again(best.config, CONTROL), value)
    assert optimizer.best == best  # the best of several measurements is luck
    answer = report_summary.winner_section(RunFacts(tmp_path / "run.jsonl")).answer
    assert answer.startswith("Trial 1 is the best: value = 1.")
    assert ("Measured again" in answer) == (told is not None)
    assert told is None or told in answer
    table = describe_run(JournalView(tmp_path / "run.jsonl"), 3, 99)
    assert re.search(r"trial +value.*\n +1 +1 ", table)


def with_shares(facts, shares):
    """Return the facts with the named shares as importance: (low, share), in order."""
    importance = facts.explained.importance
    effects = tuple(
        dataclasses.replace(importance.effects[0], name=name, low=low, share=share, high=1.0)
        for name, (low, share) in shares.items()
    )
    importance = dataclasses.replace(importance, effects=effects)
    facts.__dict__["explained"] = dataclasses.replace(facts.explained, importance=importance)
    return facts


def importance_table(facts):
    section = understanding.importance_section(facts)
    table = next(
        p for p in section.parts if isinstance(p, ReportTable) and p.head[0] == "parameter"
    )
    return section.answer, table


def test_the_answer_names_only_parameters_whose_interval_excludes_a_small_share(facts):
    answer, table = importance_table(
        with_shares(facts, {"wide": (0.0, 0.43), "sure": (0.1, 0.22), "low": (0.01, 0.02)})
    )
    assert answer == "Of 3 parameters, clearly important: sure (22 %)."
    assert [row[-1] for row in table.rows[:3]] == ["uncertain", "", "uncertain"]
    assert "Ordered by the total effect; uncertain: the interval begins below 1 %." in table.caption
    assert "not the effect of one change at the winner" in table.caption
    answer, _ = importance_table(with_shares(facts, {"wide": (0.0, 0.43), "other": (0.0, 0.4)}))
    assert answer.startswith(
        "After 24 evaluations, none of the 2 parameters is clearly important: too few"
    )


@pytest.mark.parametrize(
    ("importances", "not_shown", "dependences", "left_out"),
    [
        (40, "", 12, "other parameters"),
        (41, "1 further parameter with", 13, "; the least important parameter is left out"),
        (43, "3 further parameters with", 15, "; the least important 3 parameters are left out"),
    ],
)
def test_tables_say_what_they_leave_out(facts, importances, not_shown, dependences, left_out):
    shares = {f"p{k}": (0.0, 0.2 if k < 40 else 0.01) for k in range(importances)}
    _, table = importance_table(with_shares(facts, shares))
    assert [row[0] for row in table.rows[:40]] == [f"p{k}" for k in range(40)]
    caption = f" Not shown: {not_shown} at most 1 %." if not_shown else ""
    assert ("Not shown" in table.caption) == bool(caption)
    assert caption in table.caption
    point = DependencePoint(values=(1,), value=1.0, low=0.5, high=1.5, runs=1.0)
    tables = tuple(Dependence((f"p{k}",), (point, point)) for k in range(dependences))
    facts.__dict__["explained"] = dataclasses.replace(facts.explained, dependence=tables)
    section = understanding.choices_section(facts)
    captions = [p.caption for p in section.parts if isinstance(p, ReportTable)]
    assert captions[0].endswith(left_out)


def test_the_report_has_the_outlook_that_show_prints(facts):
    with thread_limit(1):  # more threads add in another order
        assert facts.explained.outlook == estimate_outlook(facts.history, 0)


def test_a_slow_report_says_what_it_is_doing(journal, tmp_path, capsys, monkeypatch):
    target = tmp_path / "report.html"
    monkeypatch.setattr("baco_like.reporting.report._SILENT_SECONDS", 600.0)
    write_with_notes(journal, target)
    assert capsys.readouterr().err == ""
    shown = threading.Event()

    def write(journal, target, *, peak, note):
        note("reading")
        note("explaining")
        shown.wait(60)
        note("drawing")

    class Soon(threading.Timer):
        def __init__(self, seconds, function):
            super().__init__(0.0, function)

        def run(self):
            super().run()
            shown.set()

    monkeypatch.setattr("baco_like.reporting.report.Timer", Soon)
    monkeypatch.setattr("baco_like.reporting.report.write_report", write)
    write_with_notes(journal, target)
    lines = capsys.readouterr().err.splitlines()
    assert lines[-2:] == ["report: explaining", "report: drawing"]


def test_no_error_in_a_browser(text, tmp_path):
    if BROWSER is None:
        pytest.skip("needs chromium")
    (tmp_path / "report.html").write_text(text)
    flags = "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking"
    flags += " --disable-component-update --disable-sync --virtual-time-budget=20000 --dump-dom"
    flags += f" --enable-logging=stderr --v=0 --user-data-dir={tmp_path / 'profile'}"
    command = [BROWSER, *flags.split(), (tmp_path / "report.html").as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert "CONSOLE" not in done.stderr, done.stderr
    charts = json.loads(re.search(r'id="specifications">(.*?)</script>', text)[1])
    assert f'data-drawn="{len(charts)}"' in done.stdout
    assert done.stdout.count('class="marks"') == len(charts)


def test_a_run_without_a_success_has_a_report(tmp_path):
    optimizer = Optimizer({"x": [1, 2, 3]}, storage=tmp_path / "run.jsonl")
    page = Page(build_report(tmp_path / "run.jsonl"))
    assert "No evaluation has succeeded yet" in page.sections["winner"]["text"]
    optimizer.observe(optimizer.suggest(), failed="runtime")
    page = Page(build_report(tmp_path / "run.jsonl"))
    assert tuple(page.sections) == SECTIONS
    assert "1 of 1 evaluations failed" in page.sections["failures"]["text"]


RUN_FILE = """
[space.n]
type = "ordinal"
values = [1, 2, 3, 4, 5, 6, 7]
default = 4
[objective]
name = "time"
unit = "ms"
[evaluator]
kind = "command"
build = "touch {workdir}/built"
run = "echo time: {n}.5"
measure = "regex"
pattern = "time: (.*)"
[budget]
evaluations = 7
[confirmation]
top = 2
evaluations = 9
"""


def test_tune_writes_the_report_with_confirmation_and_commands(tmp_path, capsys):
    (tmp_path / "job.toml").write_text(RUN_FILE)
    out = tmp_path / "out"
    assert cli.main(["tune", str(tmp_path / "job.toml"), "--out", str(out), "--report"]) == 0
    assert f"the report is in {out / 'report.html'}" in capsys.readouterr().out
    page = Page((out / "report.html").read_text())
    assert "Speed-up over the default: 3" in page.sections["winner"]["text"]
    assert "recommended" in page.sections["winner"]["text"]
    assert "echo time: 1.5" in page.sections["reproduce"]["text"]
    assert "baco-like rebuild" in page.sections["reproduce"]["text"]


def test_the_command_writes_beside_the_journal_and_takes_a_peak(tmp_path, capsys):
    journal = tmp_path / "run.jsonl"
    optimizer = Optimizer({"x": [1, 2, 3]}, storage=journal)
    optimizer.observe(optimizer.suggest(), 2.0)
    assert cli.main(["report", str(journal), "--peak", "1.9"]) == 0
    assert "of the stated peak, 1.9" in journal.with_suffix(".html").read_text()
    with pytest.raises(SystemExit):
        cli.main(["report", str(journal), "--peak", "0"])
    assert "needs a number above 0" in capsys.readouterr().err


@pytest.fixture
def confirmed(tmp_path):
    """A run of 8 evaluations, 2 failed, and 6 measurements of a confirmation, 3 failed; one parameter is fixed."""
    space = Space({"tile": Ordinal([1, 2, 4, 8, 16, 32, 64, 128], default=1), "size": [7]})
    optimizer = Optimizer(space, strategy="random_search", storage=tmp_path / "run.jsonl")
    for number in range(8):
        trial = optimizer.suggest()
        failed = "compile" if number in (3, 5) else None
        optimizer.observe(trial, None if failed else 1.0 + number, failed=failed)
    for number in range(6):
        again = optimizer.measure_again(dict(optimizer.trials[0].config), CONFIRMATION)
        optimizer.observe(
            again, None if number % 2 else 1.0, failed="runtime" if number % 2 else None
        )
    return RunFacts(tmp_path / "run.jsonl")


def test_the_evaluations_and_the_parameters_have_one_count_each(confirmed):
    summary = confirmed.findings
    assert (summary.history.searched, summary.failures) == (8, {"compile": 2})
    counts = "8 evaluations, 6 measurements to confirm the winner; failures: compile 2"
    assert counts in format_summary(summary)
    assert counts in describe_run(confirmed, 3)
    assert report_summary.search_section(confirmed).answer.startswith(counts)
    assert report_summary.failure_section(confirmed).answer.startswith(
        "2 of 8 evaluations failed: compile 2"
    )
    end = report_summary.end_section(confirmed)
    assert str(end.parts[0]).startswith(counts)
    assert "of 1 parameters was tried" in str(end.parts[1])
    (table,) = [
        part for part in report_summary.winner_section(confirmed).parts if "parameter" in part.head
    ]
    assert table.caption.endswith(" of 1 parameters differ; those with one value are not counted")


@given(st.floats(1e-12, 1e12), st.floats(5.1, 1e12))
def test_a_logarithmic_axis_ends_near_the_values_and_has_a_few_round_numbers(low, ratio):
    fitted = charts._fit([low, low * ratio])
    start, end = fitted["scale"]["domain"]
    assert low / ratio**0.04 < start < low < low * ratio < end < low * ratio * ratio**0.04
    ticks = fitted["axis"]["values"]
    assert 3 <= len(ticks) <= 12
    assert all(
        start <= tick <= end and f"{tick:.0e}" == f"{tick:.10e}".replace(".0000000000", "")
        for tick in ticks
    )


@pytest.mark.parametrize("values", [[], [0.0, 100.0], [-1.0, 1.0], [2.0, 9.0], [3.0]])
def test_other_axes_are_linear(values):
    assert charts._fit(values) == {"scale": {"zero": False}}


@given(st.lists(st.text("abc", min_size=1, max_size=60), min_size=1, max_size=12, unique=True))
def test_texts_on_an_axis_are_level_only_where_they_fit(texts):
    axis = charts._choice_axis([{"x": text} for text in texts], "x")
    width = max(map(len, texts)) * charts._LETTER
    assert (axis["labelAngle"] == 0) == (width * len(texts) <= charts._NARROW)
    assert axis["labelLimit"] < charts._NARROW


def test_charts_of_thousands_of_trials_stay_small(tmp_path):
    space = {f"x{i}": list(range(10)) for i in range(4)}
    optimizer = Optimizer(space, strategy="random_search", storage=tmp_path / "run.jsonl")
    trials = optimizer.suggest(3000)
    optimizer.observe(trials, [float(sum(trial.values())) + 1.0 for trial in trials])
    facts = RunFacts(tmp_path / "run.jsonl")
    drawn = [p for p in report_summary.search_section(facts).parts if isinstance(p, ReportChart)]
    assert len(drawn) == 2
    assert all(len(json.dumps(chart.specification)) < 120_000 for chart in drawn)
    assert all("at most 1000 evaluations" in chart.caption for chart in drawn)


def test_repeated_measurements_count_among_the_values_of_the_models(tmp_path, monkeypatch):
    for module in ("reporting.understanding", "explanations.models"):
        monkeypatch.setattr(f"baco_like.{module}.FITTED_ROWS", 8)
    optimizer = Optimizer({"x": [1, 2, 3, 4, 5, 6]}, storage=tmp_path / "run.jsonl")
    for trial in optimizer.suggest(6):
        optimizer.observe(trial, float(trial["x"]))
    for value in (1.1, 1.2, 1.3, 1.4):
        optimizer.observe(optimizer.measure_again({"x": 1}, CONTROL), value)
    facts = RunFacts(tmp_path / "run.jsonl")
    assert "of 8 of the 10 values lie in" in understanding.trust_section(facts).answer
    parts = understanding.importance_section(facts).parts
    captions = " ".join(part.caption for part in parts if isinstance(part, ReportTable))
    assert "Of the 10 values, a Gaussian process uses 8" in captions


def test_a_journal_says_when_and_where_its_trials_were_measured(tmp_path, monkeypatch):
    clock = iter(range(1000, 2000, 60))
    clocks = SimpleNamespace(time=lambda: next(clock), monotonic=time.monotonic)
    monkeypatch.setattr("baco_like.optimizer.state.time", clocks)
    optimizer = Optimizer({"x": [1, 2, 3]}, storage=tmp_path / "run.jsonl")
    optimizer.observe(optimizer.suggest(), 1.0, extra={"seconds": {"run": 20.0}})
    optimizer.observe(optimizer.suggest(), 2.0, extra={"seconds": {"run": 20.0}})
    facts = RunFacts(tmp_path / "run.jsonl")
    assert [(t.started, t.ended) for t in facts.trials] == [(1000, 1060), (1120, 1180)]
    assert {"name", "cpus", "machine", "system"} <= set(facts.opened["host"])
    tables = [p for p in understanding.trust_section(facts).parts if isinstance(p, ReportTable)]
    seconds = dict(tables[-1].rows)
    assert seconds["run"] == 40.0
    assert seconds["waiting for a turn, and overhead of the evaluator"] == 80.0


def test_only_known_compilers_are_asked_for_their_version(tmp_path):
    script = tmp_path / "build"
    script.write_text(f"#!/bin/sh\ntouch {tmp_path / 'started'}\n")
    script.chmod(0o755)
    assert describe_compiler({"build": f"{script} x"}) == ""
    assert not (tmp_path / "started").exists()
    compiler = tmp_path / "x86-gcc-12"
    compiler.write_text("#!/bin/sh\necho 'gcc 12.2.0'\n")
    compiler.chmod(0o755)
    assert describe_compiler({"build": f"{compiler} -O2"}) == "gcc 12.2.0"
    assert describe_compiler({"build": [str(compiler), "-O2"]}) == "gcc 12.2.0"
    assert describe_compiler({"compiler": str(compiler)}) == "gcc 12.2.0"
    assert describe_compiler({"compiler": str(tmp_path / "none")}) == ""


def test_a_run_goes_on_with_another_peak_or_compiler(tmp_path):
    path, out = tmp_path / "job.toml", tmp_path / "out"
    path.write_text(RUN_FILE.replace("evaluations = 7", "evaluations = 3"))
    assert cli.main(["tune", str(path), "--out", str(out)]) == 0
    path.write_text(RUN_FILE.replace('unit = "ms"', 'unit = "ms"\npeak = 0.5'))
    assert cli.main(["tune", str(path), "--out", str(out), "--resume"]) == 0
