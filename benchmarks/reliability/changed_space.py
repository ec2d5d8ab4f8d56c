"""8. Resume with a changed space, and observe foreign configurations: rejected with the reason, taken over on request.

    python benchmarks/reliability/changed_space.py [--quick]

Each change must be rejected with a message that names the difference, and the journal must keep its bytes. After
`warm_start=`, the new journal must hold every observation that is valid there, and the old file must be unchanged.
"""

import warnings
from pathlib import Path
from typing import Any

from harness import Report, arguments, scratch

from baco_like import (
    Categorical,
    ConfigError,
    Integer,
    JournalError,
    Optimizer,
    Ordinal,
    Real,
    Space,
    TrialError,
    WarmStartWarning,
)

PARAMETERS: dict[str, Any] = {
    "a": Ordinal([1, 2, 4, 8], default=2),
    "b": Integer(1, 9, default=3),
    "c": Categorical(["x", "y"], default="x"),
    "d": Real(0.0, 1.0, default=0.5),
}
RULES = ["a * b <= 40"]

CHANGES: dict[str, tuple[dict[str, Any], list[str], str]] = {
    "value added": ({"a": Ordinal([1, 2, 4, 8, 16], default=2)}, RULES, "parameter 'a' was"),
    "value removed": ({"a": Ordinal([1, 2, 4], default=2)}, RULES, "parameter 'a' was"),
    "value renamed": ({"c": Categorical(["x", "z"], default="x")}, RULES, "parameter 'c' was"),
    "bound moved": ({"b": Integer(1, 8, default=3)}, RULES, "parameter 'b' was"),
    "kind changed": ({"b": Ordinal(list(range(1, 10)), default=3)}, RULES, "parameter 'b' was"),
    "default changed": ({"d": Real(0.0, 1.0, default=0.25)}, RULES, "parameter 'd' was"),
    "parameter added": ({"e": Integer(0, 3, default=0)}, RULES, "parameter 'e' was added"),
    "parameter removed": ({"d": None}, RULES, "parameter 'd' was removed"),
    "constraint added": ({}, [*RULES, "b != 4"], "constraint 'b != 4' was added"),
    "constraint removed": ({}, [], "constraint 'a * b <= 40' was removed"),
    "constraint changed": ({}, ["a * b <= 20"], "constraint 'a * b <= 20' was added"),
}


def space(changes: dict[str, Any], rules: list[str]) -> Space:
    parameters = {name: p for name, p in {**PARAMETERS, **changes}.items() if p is not None}
    return Space(parameters, constraints=rules)


def optimizer(whole: Space, path: Path, earlier: Path | None = None) -> Optimizer:
    return Optimizer(whole, strategy="random_search", seed=3, storage=path, warm_start=earlier)


def refused(report: Report, path: Path, name: str) -> None:
    changes, rules, words = CHANGES[name]
    before = path.read_bytes()
    for go_on in (
        lambda: optimizer(space(changes, rules), path),
        lambda: Optimizer.load(path, space=space(changes, rules)),
    ):
        try:
            go_on()
        except JournalError as error:
            report.check(words in str(error), f"{name}: {error}")
        else:
            report.check(False, f"{name}: accepted")
    report.check(path.read_bytes() == before, f"{name}: the journal was written to")


def taken_over(report: Report, path: Path, name: str) -> int:
    changes, rules, _ = CHANGES[name]
    new, place, before = space(changes, rules), path.with_name("new.jsonl"), path.read_bytes()
    old = Optimizer.load(path)
    place.unlink(missing_ok=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WarmStartWarning)
        optimizer(new, place, path)
    again = Optimizer.load(place)
    left_out = sum(again.warm_start[0].left_out.values())
    report.check(path.read_bytes() == before, f"{name}: the old journal has changed")
    report.check(len(again.trials) + left_out == len(old.trials), f"{name}: results are lost")
    known = [t.outcome.repeats for t in old.trials]
    kept = [t.outcome.repeats for t in again.trials]
    report.check(all(repeats in known for repeats in kept), f"{name}: results have changed")
    report.check(all(map(new.contains, again.trials)) and bool(kept), f"{name}: {left_out}")
    trial = again.suggest()
    again.observe(trial, 1.0)
    report.check(new.contains(trial), f"{name}: a suggestion outside the new space")
    return len(kept)


def foreign(report: Report, path: Path) -> None:
    opt, before = Optimizer.load(path), path.read_bytes()
    good = dict(opt.trials[0])
    for wrong in (
        {**good, "a": 999},
        {**good, "a": 8, "b": 9},
        {**good, "b": 2.5},
        {**good, "c": "X"},
        {**good, "d": float("nan")},
        {**good, "more": 1},
        {"a": 1},
    ):
        try:
            opt.observe(wrong, 1.0)
        except (ConfigError, TrialError):
            pass
        else:
            report.check(False, f"accepted: {wrong}")
        report.check(path.read_bytes() == before, f"written: {wrong}")
    best = opt.best_value
    opt.observe({**good, "a": 999}, -1e9, imported=True)
    report.check(opt.best_value == best, "an imported one outside the space became the best")
    report.check(Optimizer.load(path).trials[-1]["a"] == 999, "the imported one is lost")


def main() -> None:
    args, report = arguments(__doc__), Report()
    del args
    with scratch() as folder:
        path = folder / "run.jsonl"
        opt = optimizer(space({}, RULES), path)
        for i in range(30):
            trial = opt.suggest()
            opt.observe(trial, [1.0 + i, 2.0 + i])
            opt.observe({"a": 1 + i % 2, "b": 1 + i % 9, "c": "x", "d": 0.5}, [3.0 + i])
        opt.suggest(3)
        opt.enqueue({"a": 4, "b": 7, "c": "x", "d": 0.5})
        for name in CHANGES:
            refused(report, path, name)
        kept = {name: taken_over(report, path, name) for name in CHANGES}
        foreign(report, path)
    report.figure(
        f"{len(CHANGES)} changes rejected with the difference, journal unchanged: {', '.join(CHANGES)}"
    )
    report.figure(f"taken over on request, results of 60: {kept}")
    report.figure(
        "7 configurations outside the space rejected; an imported one kept and not modelled"
    )
    report.end()


if __name__ == "__main__":
    main()
