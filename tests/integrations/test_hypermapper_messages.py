"""The lines of the protocol."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baco_like.integrations.hypermapper.messages import (
    END,
    format_request,
    matches_config,
    parse_cells,
    parse_names,
    report_to_stderr,
    split_cells,
)
from baco_like.parameters import Integer, Ordinal, Permutation, Real
from baco_like.results.hypermapper_csv import Feasibility, Layout

LAYOUT = Layout(
    {
        "x1": Real(-5, 10),
        "x2": Integer(0, 15),
        "ts": Ordinal([2, 4, 8, 16]),
        "p": Permutation(range(3)),
    },
    feasibility=Feasibility(required=True),
)


def test_a_request_word_for_word():
    configs = [
        {"x1": 0.0, "x2": 0, "ts": 4, "p": (0, 1, 2)},
        {"x1": -3.6780152320861816, "x2": 14, "ts": 16, "p": (0, 2, 1)},
    ]
    assert format_request(LAYOUT, configs) == (
        "Request 2\nx1,x2,ts,p\n0.0,0,4,(0, 1, 2)\n-3.6780152320861816,14,16,(0, 2, 1)\n"
    )
    assert END == "End of HyperMapper\n"


@pytest.mark.parametrize(
    ("line", "cells"),
    [
        ("1,2.5,(0, 1, 2),True", ["1", "2.5", "(0, 1, 2)", "True"]),
        (" 1 , (0,1) ,x ", ["1", "(0,1)", "x"]),
        ('1,"(0, 1, 2)",x', ["1", "(0, 1, 2)", "x"]),
        ("x0,x1,f1_value,", ["x0", "x1", "f1_value", ""]),  # HyperMapper's C++ client
        ("1,-nan(ind),2", ["1", "-nan(ind)", "2"]),
        ("(a,b", ["(a", "b"]),
        ("tile,run time(ms)", ["tile", "run time(ms)"]),
        ('"a""b",c', ['a"b', "c"]),
        ('"a"b,"c', ['"a"b', '"c']),
        ('"a" , (1) ,(1)x,((1,2)', ["a", "(1)", "(1)x", "((1", "2)"]),
        ("", [""]),
        (",,", ["", "", ""]),
    ],
)
def test_split(line, cells):
    assert split_cells(line) == cells


@given(st.text(alphabet='(),"a1 \t', max_size=30))
def test_split_takes_any_line(line):
    assert 1 <= len(split_cells(line)) <= line.count(",") + 1


_CELL = re.compile(r'\s*(?:("(?:[^"]|"")*")|(\([^()]*\)|[^,]*?))\s*(,|$)')


@given(st.text(alphabet='(),"a1 \t', max_size=30))
def test_split_agrees_with_a_regular_expression(line):
    """The expression defines the cells; its time is quadratic in the blanks of a line."""
    cells, position = [], 0
    while True:
        match = _CELL.match(line, position)
        quoted, plain, separator = match.groups()
        cells.append(plain if quoted is None else quoted[1:-1].replace('""', '"'))
        if not separator:
            break
        position = match.end()
    assert split_cells(line) == cells


@pytest.mark.parametrize(
    "unit", [" ", "1,2,1" + " " * 1000, "(a,", '"a,', '""x,', '"" ', '"a" ', "(1) ", '"(,', ") ("]
)
def test_split_takes_linear_time(unit):
    """100,000 characters; scanning the rest of the line for each cell or blank would take minutes."""
    assert split_cells(unit * (100_000 // len(unit)) + "x")[-1].endswith("x")


def test_names_in_any_order_with_additional_columns():
    line = "Timestamp, Valid ,p,Value,ts,x2,x1,energy"
    names = parse_names(line, LAYOUT)
    assert names == ["Timestamp", "Valid", "p", "Value", "ts", "x2", "x1", "energy"]
    cells = parse_cells("7,True,(0, 1, 2),1.5,4,0,0.0,9", names)
    assert cells["p"] == "(0, 1, 2)"
    assert cells["Value"] == "1.5"


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("x1,x2,ts,p,Valid", "no column 'Value'"),
        ("x1,x2,ts,p,Value", "no column 'Valid'"),
        ("x1,x2,ts,p,Value,Valid,Value", "two columns 'Value'"),
        ("Traceback (most recent call last):", "no column 'Value'"),
    ],
)
def test_wrong_names(line, named):
    with pytest.raises(ValueError, match=named):
        parse_names(line, LAYOUT)


def test_a_row_with_too_few_cells():
    with pytest.raises(ValueError, match="2 cells for the 3 columns a,b,c"):
        parse_cells("1,2", ["a", "b", "c"])


ASKED = {"x1": 1 / 3, "x2": 3, "ts": 4, "p": (0, 1, 2)}


@pytest.mark.parametrize(
    ("cells", "same"),
    [
        ({"x1": "0.333333", "x2": "3", "ts": "4.0", "p": "(0,1,2)"}, True),
        ({"ts": "4", "Value": "9"}, True),
        ({}, True),
        ({"x1": "0.334", "ts": "4"}, False),
        ({"ts": "8"}, False),
        ({"p": "(2, 1, 0)"}, False),
        ({"ts": "four"}, False),
        ({"x1": "nan"}, False),
    ],
)
def test_rows_match_configurations(cells, same):
    assert matches_config(LAYOUT, cells, ASKED) is same


def test_a_report_stays_in_its_line(capsys):
    report_to_stderr("forged\nended: 9 evaluations\x1b[2J\u2028\ud800")
    line = r"forged\nended: 9 evaluations\x1b[2J\u2028\ud800"
    assert capsys.readouterr().err == f"baco-like: warning: {line}\n"
