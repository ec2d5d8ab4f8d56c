"""12. Values that look like shell commands, and paths that lead elsewhere: no command runs, no file is written outside.

    python benchmarks/reliability/injection.py [--quick] [--values 2000]

Hostile and random texts with shell characters are put into a command through a placeholder, inside a word, with and
without a memory limit (which a small shell sets). The program must receive each text unchanged. Scenarios whose outputs
lead out of their folder, or whose folder is outside the current one, must be rejected before any file is written.
"""

import os
import random
import sys
from pathlib import Path

from harness import Report, arguments, chosen, scratch
from mutations import CANARY, TOKENS

from baco_like.evaluators._processes import process
from baco_like.evaluators.command.template import Template, to_text
from baco_like.exceptions import BacoError
from baco_like.integrations import read_scenario
from baco_like.integrations.hypermapper.server import ServeOptions, serve

CHARACTERS = "ab $`'\"\\;|&<>(){}[]*?!#~=%\n\t-é"

HOSTILE = [
    f"$(touch {CANARY})",
    f"`touch {CANARY}`",
    f"; touch {CANARY}",
    f"' ; touch {CANARY} ; '",
    f'" ; touch {CANARY} ; "',
    f"\\'; touch {CANARY} #",
    f"\ntouch {CANARY}\n",
    f"| tee {CANARY}",
    f"> {CANARY}",
    f"&& touch {CANARY}",
    "{x}",
    "{workdir}",
    "{{x}}",
    "%s%n",
    "-e",
    "--help",
    "~",
    "*",
    "$HOME",
    "",
]

ESCAPES = {
    "output_data_file": ["../out.csv", "/tmp/escaped.csv", "a/../../out.csv"],
    "application_name": ["../app", "/tmp/escaped"],
}

OUTSIDE = ["..", "../escaped", "/tmp/escaped", "a/../.."]
"""Values of ``run_directory`` outside the current folder."""


def texts(number: int, rng: random.Random) -> list[str]:
    found = [*HOSTILE, *(token for token in TOKENS if isinstance(token, str))]
    while len(found) < number:
        found.append("".join(rng.choices(CHARACTERS, k=rng.randrange(1, 30))))
    return [text for text in found if "\0" not in text and "\ud800" not in text]


def given(report: Report, text: str, folder: Path) -> None:
    template = Template.parse("printf '<%s>|<%s>' {x} pre{x}post", ["x"], "run")
    for memory in (None, 2**32):
        done = process.run_command(
            template.fill({"x": to_text(text)}), folder=folder, memory=memory, timeout=60
        )
        report.check(done.out == f"<{text}>|<pre{text}post>", f"{text!r} became {done.out!r}")


SCENARIO = {
    "optimization_objectives": ["v"],
    "input_parameters": {"x": {"parameter_type": "ordinal", "values": [1, 2]}},
    "resume_optimization": True,
}


def escaping(report: Report, folder: Path) -> int:
    tried = len(OUTSIDE)
    for value in OUTSIDE:
        scenario = {**SCENARIO, "run_directory": value, "resume_optimization": False}
        try:
            serve(read_scenario(scenario), sys.stdin, sys.stdout, print, ServeOptions())
        except BacoError as error:
            report.check("--allow-dir" in str(error), f"run_directory = {value!r}: {error}")
        else:
            report.check(False, f"run_directory = {value!r} is accepted")
    for name, values in ESCAPES.items():
        for value in values:
            scenario = {**SCENARIO, "run_directory": str(folder / "inner"), name: value}
            tried += 1
            try:
                read_scenario(scenario)
            except BacoError as error:
                report.check(name in str(error), f"{name} = {value!r}: {error}")
            else:
                report.check(False, f"{name} = {value!r} is accepted")
    return tried


def main() -> None:
    args = arguments(__doc__, values=2000)
    number, report = chosen(args.values, args.quick, 60, 2000), Report()
    with scratch() as folder:
        os.chdir(folder)
        found = texts(number, random.Random(args.seed))
        for text in found:
            given(report, text, folder)
        report.check(not list(folder.iterdir()), f"written: {list(folder.iterdir())}")
        tried = escaping(report, folder)
        report.check(not list(folder.iterdir()), f"written: {list(folder.iterdir())}")
        os.chdir("/")
    report.figure(
        f"{len(found)} texts reached a program unchanged, each with and without a memory limit"
    )
    report.figure(f"{tried} paths that lead out of the output folder were rejected")
    report.end()


if __name__ == "__main__":
    main()
