"""Our journals pass the conformance suite, and wrong ones do not."""

from dataclasses import dataclass, field

import pytest

from baco_like.exceptions import JournalConflict
from baco_like.journal import JsonlJournal, Mark, MemoryJournal
from baco_like.testing.journals import check_journal, check_resume


@pytest.fixture(params=["memory", "file"])
def opener(request, tmp_path):
    """Return a function that opens the same journal each time."""
    if request.param == "file":
        return lambda: JsonlJournal(tmp_path / "run.jsonl")
    journal = MemoryJournal()
    return lambda: journal


def test_our_journals_conform(opener):
    check_journal(opener)


def test_our_journals_resume_a_run(opener):
    check_resume(opener)


@dataclass
class Plain:
    """A journal of the simplest kind, in which tests break one rule."""

    events: list = field(default_factory=list)
    forgets: bool = False
    overwrites: bool = False
    repeats_all: bool = False

    def read(self, after):
        first = 0 if self.repeats_all else after.number
        return [(self.events[n], Mark(n + 1)) for n in range(first, len(self.events))]

    def append(self, event, after):
        if len(self.events) > after.number and not self.overwrites:
            raise JournalConflict("grown")
        if not (self.forgets and self.events):
            self.events.append(dict(event))
        return Mark(after.number + 1)


@pytest.mark.parametrize(
    ("broken", "rule"),
    [
        ({"forgets": True}, "read back"),
        ({"overwrites": True}, "JournalConflict"),
        ({"repeats_all": True}, "after a mark"),
    ],
)
def test_a_journal_that_breaks_a_rule_is_found_out(broken, rule):
    journal = Plain(**broken)
    with pytest.raises(AssertionError, match=rule):
        check_journal(lambda: journal)
