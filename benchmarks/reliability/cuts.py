"""2. Cut the journal at every byte of its last three events: it opens and loses at most the cut event.

    python benchmarks/reliability/cuts.py [--quick]

After each cut, the journal is opened, a suggestion is observed, and the journal is opened again. The same is done with
zeros in place of the removed bytes, which a power cut may leave.
"""

from pathlib import Path

from harness import SPACE, Report, arguments, known, observe, scratch

from baco_like import Optimizer


def recorded(path: Path) -> None:
    opt = Optimizer(SPACE, strategy="random_search", storage=path)
    for _ in range(12):
        observe(opt, opt.suggest())
    opt.suggest(2)
    opt.observe(opt.pending[1], [1.0, 2.0])


def check(report: Report, path: Path, whole: dict, least: int, what: str) -> None:
    """Open, continue, and open again; ``least`` results are before the cut."""
    opt = Optimizer.load(path)
    seen = known(opt)
    report.check(seen.items() <= whole.items() and len(seen) >= least, f"{what}: results are lost")
    trial = opt.suggest()
    opt.observe(trial, 0.125)
    again = known(Optimizer.load(path))
    report.check(again.pop(trial.id, [None] * 2)[1] == 0.125, f"{what}: the next result is lost")
    report.check(again == seen, f"{what}: other results after going on")


def main() -> None:
    args, report = arguments(__doc__), Report()
    with scratch() as folder:
        recorded(folder / "whole")
        data, whole = (folder / "whole").read_bytes(), known(Optimizer.load(folder / "whole"))
        ends = [i + 1 for i, byte in enumerate(data) if byte == ord("\n")]
        cuts = range(ends[-4], len(data) + 1, 61 if args.quick else 1)
        for cut in cuts:
            records = [line for line in data[:cut].split(b"\n")[:-1] if b'"observed"' in line]
            for tail, what in ((b"", "cut"), (b"\0" * (len(data) - cut), "zeros")):
                (folder / "cut").write_bytes(data[:cut] + tail)
                check(report, folder / "cut", whole, len(records), f"{what} at byte {cut}")
    report.figure(f"{len(cuts)} cuts and as many zeroed ends, in the last 3 of {len(ends)} events")
    report.end()


if __name__ == "__main__":
    main()
