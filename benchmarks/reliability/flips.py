"""3. Flip one byte anywhere: rejected with the event's number, and `baco-like repair` keeps all other events.

    python benchmarks/reliability/flips.py [--quick]

Each byte of a journal is replaced by up to three others, one of them the end of a line. Opening must fail and name the
event. The repaired journal must open and hold every unchanged result except the damaged one. A damaged header is taken
from a new journal of the same run.
"""

import random
from pathlib import Path

from harness import SPACE, Report, arguments, known, observe, scratch

from baco_like import JournalError, Optimizer
from baco_like.journal.repairing import repair


def recorded(path: Path) -> None:
    opt = Optimizer(SPACE, strategy="random_search", storage=path)
    for _ in range(5):
        observe(opt, opt.suggest())
    _, two, three = opt.suggest(3)
    opt.abandon(two)
    observe(opt, three)
    opt.enqueue(SPACE.sample(1, seed=5)[0])
    observe(opt, opt.suggest())


def refused(report: Report, path: Path, number: int, what: str) -> None:
    try:
        Optimizer.load(path)
    except JournalError as error:
        report.check(error.record == number, f"{what}: refused as event {error.record}")
    else:
        report.check(False, f"{what}: not refused")


def repaired(report: Report, folder: Path, whole: dict, number: int, what: str) -> int:
    (folder / "new").unlink(missing_ok=True)
    found = repair(folder / "bad", folder / "new", folder / "fresh")
    seen = known(Optimizer.load(folder / "new"))
    report.check(seen.items() <= whole.items(), f"{what}: repair has changed a result")
    report.check(len(seen) >= len(whole) - 1, f"{what}: repair has lost more than one result")
    ends = what.endswith("end of a line")
    told = any(f"event {number}" in note or f"to {number} " in note for note in found.notes)
    report.check(ends or told, f"{what}: repair has not reported event {number}: {found.notes}")
    return len(whole) - len(seen)


def main() -> None:
    args, report = arguments(__doc__), Report()
    rng, flips, lost = random.Random(args.seed), 0, 0
    with scratch() as folder:
        recorded(folder / "whole")
        Optimizer(SPACE, strategy="random_search", storage=folder / "fresh")
        data, whole = (folder / "whole").read_bytes(), known(Optimizer.load(folder / "whole"))
        for place in range(0, len(data), 307 if args.quick else 1):
            old, number = data[place], data[:place].count(b"\n")
            others = {old ^ (1 << rng.randrange(8)), rng.randrange(256), ord("\n")} - {old}
            if place == len(data) - 1:
                others -= {0}  # a power cut leaves this too: the event is complete and is read
            for other in sorted(others):
                (folder / "bad").write_bytes(data[:place] + bytes([other]) + data[place + 1 :])
                what = f"byte {place} {'end of a line' if old == 10 else ''}"
                refused(report, folder / "bad", number, what)
                lost += repaired(report, folder, whole, number, what)
                flips += 1
    report.figure(f"{flips} flips over {len(data)} bytes: rejected with the event's number")
    report.figure(f"{lost / flips:.2f} results lost on average by a repair, never more than 1")
    report.end()


if __name__ == "__main__":
    main()
