"""The page of a report: sections of text, tables and charts in one HTML file that loads nothing else."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from string import Template
from typing import Any, TypeAlias

from baco_like._optional import require
from baco_like._output import escape_control_characters, show

_SHORT = 24
"""Most characters of a cell that is not broken into lines."""


LONGEST_TEXT = 300
"""Most characters of a text in a chart."""

_LONGEST_PARAGRAPH = 5000
"""Most characters of a paragraph, a heading or a cell."""


@dataclass(frozen=True)
class ReportTable:
    """A table.

    Attributes:
        head: The names of the columns.
        rows: The cells; numbers and None are aligned to the right.
        caption: The title, or an empty text.
    """

    head: Sequence[str]
    rows: Sequence[Sequence[Any]]
    caption: str = ""


@dataclass(frozen=True)
class ReportChart:
    """A chart.

    Attributes:
        specification: Vega-Lite, as JSON values.
        caption: The title.
    """

    specification: Mapping[str, Any]
    caption: str


@dataclass(frozen=True)
class Listing:
    """Lines to copy, such as commands."""

    text: str


@dataclass(frozen=True)
class Heading:
    """A heading within a section."""

    text: str


Part: TypeAlias = "str | ReportTable | ReportChart | Listing | Heading"
"""A part of a section; a text is a paragraph. Charts that follow each other stand side by side."""


@dataclass(frozen=True)
class Section:
    """A question and its answer.

    Attributes:
        name: The fragment of its address in the page.
        question: The heading.
        answer: One or two sentences.
        parts: What supports the answer.
    """

    name: str
    question: str
    answer: str
    parts: Sequence[Part] = ()


def render_page(title: str, about: str, sections: Sequence[Section]) -> str:
    """Return the HTML text of a report.

    Raises:
        MissingExtra: vl-convert is not installed.
    """
    charts: dict[str, Mapping[str, Any]] = {}
    answers = "\n".join(
        f'<li><a href="#{each.name}">{_text(each.question)}</a> {_paragraph(each.answer)}</li>'
        for each in sections
    )
    body = "\n".join(_section(number, each, charts) for number, each in enumerate(sections, 1))
    head = f'<h1>{_paragraph(title)}</h1>\n<p class="about">{_paragraph(about)}</p>'
    # In a script element, only "</" and "<!--" have a meaning in HTML.
    # Differences of the largest doubles are infinite; a chart leaves out a point without a value.
    finite = json.loads(json.dumps(charts), parse_constant=lambda _: None)
    specifications = json.dumps(finite, separators=(",", ":"), allow_nan=False).replace(
        "<", "\\u003c"
    )
    template = Template(resources.files(__package__).joinpath("page.html").read_text("utf-8"))
    return template.substitute(
        title=_text(title),
        body=f'{head}\n<ol class="answers">\n{answers}\n</ol>\n{body}',
        specifications=specifications,
        library=_library(),
    )


@cache
def _library() -> str:
    """Return Vega, Vega-Lite and vega-embed in one script, which defines ``vegaEmbed``."""
    script: str = require("vl_convert", "report").javascript_bundle()
    return script.replace("</script", "<\\/script")


def shorten_text(text: str, longest: int = LONGEST_TEXT) -> str:
    """Return a text, cut off if it is longer: a journal can have names and values of megabytes, in every row."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def _text(text: Any) -> str:
    # HTML forbids control characters and halves of a pair of UTF-16; a journal can have both.
    lines = (escape_control_characters(line) for line in str(text).split("\n"))
    return html.escape("\n".join(lines))


def _paragraph(text: Any) -> str:
    return _text(shorten_text(str(text), _LONGEST_PARAGRAPH))


def _section(number: int, section: Section, charts: dict[str, Mapping[str, Any]]) -> str:
    lines = [
        f'<section id="{section.name}">',
        f"<h2>{number}. {_paragraph(section.question)}</h2>",
        f'<p class="answer">{_paragraph(section.answer)}</p>',
    ]
    row: list[str] = []
    for part in [*section.parts, ""]:
        if isinstance(part, ReportChart):
            name = f"chart-{len(charts) + 1}"
            charts[name] = part.specification
            caption = f"<figcaption>{_paragraph(part.caption)}</figcaption>"
            row.append(f'<figure>{caption}<div class="chart" id="{name}"></div></figure>')
            continue
        if row:
            lines.append('<div class="charts">\n' + "\n".join(row) + "\n</div>")
            row = []
        lines.append(_part(part))
    return "\n".join([*lines, "</section>"])


def _part(part: str | ReportTable | Listing | Heading) -> str:
    match part:
        case ReportTable():
            return _table(part)
        case Listing():
            return f"<pre>{_text(part.text)}</pre>"
        case Heading():
            return f"<h3>{_paragraph(part.text)}</h3>"
        case _:
            return f"<p>{_paragraph(part)}</p>" if part else ""


def _table(table: ReportTable) -> str:
    if not table.rows:
        return ""
    columns = list(zip(*table.rows, strict=True))
    aligned = [_class_of(column) for column in columns]
    head = _row("th", table.head, aligned)
    rows = "\n".join(_row("td", map(show, row), aligned) for row in table.rows)
    caption = f"<caption>{_paragraph(table.caption)}</caption>" if table.caption else ""
    return f'<div class="table"><table>{caption}<thead>{head}</thead>\n<tbody>{rows}</tbody></table></div>'


def _row(tag: str, cells: Iterable[str], classes: Sequence[str]) -> str:
    pairs = zip(cells, classes, strict=True)
    return f"<tr>{''.join(f'<{tag}{own}>{_paragraph(cell)}</{tag}>' for cell, own in pairs)}</tr>"


def _class_of(column: Sequence[Any]) -> str:
    """Return the class of the cells of a column: numbers stand to the right, and short texts stay in one line."""
    if all(isinstance(cell, (int, float, type(None))) for cell in column):
        return ' class="number"'
    return ' class="short"' if all(len(str(show(cell))) <= _SHORT for cell in column) else ""
