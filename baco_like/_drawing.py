"""Axes, legends, line styles, labels and files of plots with matplotlib."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from baco_like._optional import require
from baco_like._output import replace_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMN, PAGE = 3.5, 7.16
"""Width of a figure in one column, or in both columns, of a journal, in inches."""

_PRINT_DPI = 300

_LONGEST, _LONGEST_TITLE = 24, 32
"""Most characters of a name or value beside an axis, and of the title of an axis."""

_FEW, _SHORTEST = 4, 8
"""Number of labels from which on a legend has two columns, whose labels keep at least so many letters."""

LETTER = 0.075
"""Width of a letter of a label in inches."""

_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
"""Okabe and Ito's palette, which colour-blind readers can tell apart."""

_DASHES: tuple[Any, ...] = (
    "-",
    (0, (5, 1.5)),
    (0, (1, 1)),
    (0, (6, 1, 1, 1)),
    (0, (3, 1, 1, 1, 1, 1)),
)
_MARKERS = "os^DvPX<>*ph"

_TEXTS: dict[str, Any] = {"frameon": False, "fontsize": "x-small", "handlelength": 2.8}

_SMALLER = {"fontsize": "xx-small", "handlelength": 2.4, "columnspacing": 1.0}
"""Of labels that would be cut otherwise."""


def open_axes(ax: Axes | None, width: float = COLUMN, height: float = 2.3) -> Axes:
    """Return the axes, or new ones in a figure of this size in inches.

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    if ax is None:
        pyplot = require("matplotlib.pyplot", "plot")
        _, ax = pyplot.subplots(figsize=(width, height), layout="constrained")
    ax.tick_params(labelsize="small")
    return ax


def label_axes(ax: Axes, x: str, y: str) -> None:
    """Name both axes, and draw a grid behind the lines."""
    ax.set_xlabel(x, fontsize="small")
    ax.set_ylabel(y, fontsize="small")
    ax.grid(alpha=0.3, lw=0.5)
    ax.set_axisbelow(True)


def line_style(index: int, count: int = 1) -> dict[str, Any]:
    """Return the style of one of several lines: they differ in marker and dashes, too."""
    return {
        "color": _COLOURS[index % len(_COLOURS)],
        "ls": _DASHES[index % len(_DASHES)],
        "marker": _MARKERS[index % len(_MARKERS)],
        "markevery": (0.15 * (index + 0.5) / count, 0.15),
        "ms": 3.5,
        "lw": 1.2,
    }


def add_legend(ax: Axes, is_own: bool = False) -> None:
    """Put the legend above the axes, in as many columns as fit; a figure of our own becomes higher by it.

    Args:
        ax: The axes with the labelled lines.
        is_own: Whether the figure was made for these axes, and others with the same labels.
    """
    figure: Any = ax.figure
    handles, texts = ax.get_legend_handles_labels()
    room = 0.96 * (figure.bbox.width if is_own else ax.bbox.width)
    anchor: dict[str, Any] = {} if is_own else {"bbox_to_anchor": (0.5, 1.0), "borderaxespad": 0.2}
    target: Any = figure if is_own else ax
    place = "outside upper center" if is_own else "lower center"
    longest = min(max(map(len, texts), default=0), _LONGEST_TITLE)
    columns, fewest = min(6, len(texts)), 1 if len(texts) <= _FEW else 2
    look = _TEXTS
    while columns:
        shown = short_texts(texts, longest)
        legend = target.legend(handles, shown, loc=place, ncols=columns, **anchor, **look)
        width = legend.get_window_extent().width
        if width <= room or (columns == fewest and longest <= _SHORTEST):
            break
        legend.remove()
        if columns > fewest:  # the next number with fuller rows
            fuller = -(-len(texts) // (-(-len(texts) // columns) + 1))
            columns = max(fewest, min(columns - 1, fuller))
        elif look is _TEXTS:
            look = {**_TEXTS, **_SMALLER}
        else:
            longest = max(_SHORTEST, min(longest - 1, int(longest * room / width)))
    if is_own and columns:
        height = legend.get_window_extent().height / figure.dpi
        figure.set_figheight(figure.get_figheight() + height)


def mark_log(ax: Axes, side: str = "x") -> None:
    """Make an axis, ``x`` or ``y``, logarithmic, with plain numbers at its ticks."""
    ticker = require("matplotlib.ticker", "plot")
    getattr(ax, f"set_{side}scale")("log")
    low, high = getattr(ax, f"get_{side}lim")()
    marks: tuple[float, ...] = (1.0,) if high / low > 300 else (1.0, 2.0, 5.0)
    if high / low < 8:
        marks = (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0)
    axis = getattr(ax, f"{side}axis")
    axis.set_major_locator(ticker.LogLocator(subs=marks))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter(ticker.NullFormatter())


def short_text(text: str, longest: int = _LONGEST_TITLE) -> str:
    """Return a short text; the ends of long names differ as often as their beginnings."""
    end = longest // 2
    return text if len(text) <= longest else f"{text[: longest - end - 1]}…{text[-end:]}"


def short_texts(texts: Sequence[str], longest: int = _LONGEST) -> list[str]:
    """Return short texts; those that would look the same lose their common beginning instead of their middle."""
    short = [short_text(text, longest) for text in texts]
    if len(set(short)) < len(set(texts)):
        letters = enumerate(zip(*texts, strict=False))
        common = next((i for i, at in letters if len(set(at)) > 1), 0)
        short = [f"…{text[common:]}" for text in texts]
        short = [text if len(text) <= longest else f"{text[: longest - 1]}…" for text in short]
    return short


def letters_across(ax: Axes) -> float:
    """Return how many letters fit beside each other at the horizontal axis."""
    figure: Any = ax.figure
    return float(ax.bbox.width / figure.dpi / LETTER)


def name_places(ax: Axes, texts: Sequence[str], side: str = "x", most: int | None = None) -> None:
    """Write texts at the places 0, 1, ... of an axis, ``x`` or ``y``; those that would overlap are inclined.

    Args:
        ax: The axes.
        texts: The texts.
        side: The axis.
        most: If there are more texts, only each second, third, ... of them is written.
    """
    every = 1 if most is None else max(1, -(-len(texts) // most))
    short = short_texts(texts)[::every]
    style: dict[str, Any] = {}
    if side == "x" and max(map(len, short), default=0) * len(short) > letters_across(ax):
        style = {"rotation": 40, "ha": "right", "rotation_mode": "anchor"}
    getattr(ax, f"set_{side}ticks")(range(0, len(texts), every), short, **style)


@contextmanager
def open_plot(path: Path, width: float, height: float) -> Iterator[Any]:
    """Yield empty axes of matplotlib, and write the plot at the end of the ``with`` block.

    Args:
        path: The file; its suffix decides the format.
        width: Width of the plot in inches.
        height: Height of the plot in inches.

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    require("matplotlib", "plot")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    yield figure.subplots()
    save_figure(figure, path, dpi=150)


def save_figure(figure: Figure | Axes, path: str | Path, *, dpi: int = _PRINT_DPI) -> None:
    """Write a figure as journals accept it: fonts are embedded (type 42), and the same figure gives the same file.

    Args:
        figure: The figure, or axes of it.
        path: The file; its suffix decides the format (PDF, PNG, SVG, ...), without one it is PNG.
        dpi: Resolution of PNG.
    """
    import matplotlib

    whole: Any = figure.figure if hasattr(figure, "figure") else figure
    kind, data = Path(path).suffix[1:].lower() or "png", io.BytesIO()
    undated = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}
    fonts: Any = {"pdf.fonttype": 42, "ps.fonttype": 42, "svg.hashsalt": "baco_like"}
    with matplotlib.rc_context(fonts):
        whole.savefig(data, dpi=dpi, format=kind, metadata=undated.get(kind))
    replace_file(Path(path), data.getvalue())
