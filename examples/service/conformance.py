"""Check a server of the protocol with the list of requests and answers in ``conformance.jsonl``.

    python conformance.py baco-like serve --json
    python conformance.py http://127.0.0.1:8765/ [TOKEN_FILE]

Each line of the list has the message to send (``send``, or ``text`` if it is not JSON) and its answer (``expect``). An
answer may have more keys than the list. Texts with ``<`` and ``>`` are free: ``<any>``, ``<number>``, ``<integer>``,
``<text>``; ``<=NAME>`` takes any value and keeps it, ``<NAME>`` inserts it later; ``<fresh>`` differs in each run.
"""

import http.client
import json
import re
import secrets
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

LIST = Path(__file__).with_name("conformance.jsonl")
FREE = {
    "<any>": lambda value: True,
    "<number>": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "<integer>": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "<text>": lambda value: isinstance(value, str) and value != "",
}


def fill(value, kept):
    """Return a message with the kept values in place of their names."""
    if isinstance(value, dict):
        return {key: fill(entry, kept) for key, entry in value.items()}
    if isinstance(value, list):
        return [fill(entry, kept) for entry in value]
    if not isinstance(value, str):
        return value
    whole = re.fullmatch(r"<(\w+)>", value)
    if whole and whole[1] in kept:
        return kept[whole[1]]
    return value.replace("<fresh>", kept["fresh"])


def difference(expected, answer, kept, where="answer"):
    """Return where an answer differs from the expected one, or None; keep the values that the list names."""
    if isinstance(expected, str):
        if expected in FREE:
            return None if FREE[expected](answer) else f"{where} is {answer!r}, not {expected}"
        if name := re.fullmatch(r"<=(\w+)>", expected):
            kept[name[1]] = answer
            return None
    if isinstance(expected, dict) and isinstance(answer, dict):
        for key, entry in expected.items():
            if key not in answer:
                return f"{where}.{key} is missing"
            if found := difference(entry, answer[key], kept, f"{where}.{key}"):
                return found
        return None
    if isinstance(expected, list) and isinstance(answer, list) and len(expected) == len(answer):
        pairs = enumerate(zip(expected, answer, strict=True))
        found = (difference(e, a, kept, f"{where}[{i}]") for i, (e, a) in pairs)
        return next(filter(None, found), None)
    expected = fill(expected, kept)
    return None if expected == answer else f"{where} is {answer!r}, not {expected!r}"


def check(send):
    """Return the differences of a server, which ``send`` (line -> line) reaches; an empty list if it conforms."""
    kept, problems = {"fresh": secrets.token_hex(4)}, []
    for number, line in enumerate(LIST.read_text(encoding="utf-8").splitlines(), start=1):
        case = json.loads(line)
        text = case.get("text") or json.dumps(fill(case["send"], kept))
        answer = json.loads(send(text))
        if problem := difference(case["expect"], answer, kept):
            problems.append(f"line {number} ({case['about']}): {problem}; sent {text}")
    return problems


def over_pipe(process):
    """Return a function that sends a line to a program, and returns the line that it answers."""

    def send(text):
        process.stdin.write(text + "\n")
        process.stdin.flush()
        return process.stdout.readline()

    return send


def over_http(connection, path="/", token=None):
    """Return a function that sends a message over a connection of HTTP, and returns the answer."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}

    def send(text):
        connection.request("POST", path, text.encode(), headers)
        return connection.getresponse().read()

    return send


def main(words):
    if words and words[0].startswith("http://"):
        token = Path(words[1]).read_text().strip() if len(words) > 1 else None
        parts = urlsplit(words[0])
        with closing(
            http.client.HTTPConnection(parts.hostname, parts.port, timeout=60)
        ) as connection:
            problems = check(over_http(connection, parts.path or "/", token))
    else:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        with subprocess.Popen(words, **pipes, text=True) as process:
            problems = check(over_pipe(process))
            process.stdin.close()
    print("\n".join(problems) or "the server conforms")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
