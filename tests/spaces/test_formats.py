"""Readers of space files, on files written here and, where they are to be had, on the community's own."""

from __future__ import annotations

import itertools
import json
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from baco_like import Categorical, Integer, Ordinal, Permutation, Real, Space
from baco_like.constraints.expression import Expression
from baco_like.exceptions import SpaceError
from baco_like.parameters.priors import Gaussian, PiecewiseLinear
from baco_like.spaces.formats.baco import from_numexpr, read_baco
from baco_like.spaces.formats.dataframe import read_dataframe
from baco_like.spaces.formats.description import read_kernel_tuner
from baco_like.spaces.formats.t1 import list_of, read_t1, to_t1


def space_of(description):
    return Space(description.parameters, description.constraints)


class TestLiterals:
    @pytest.mark.parametrize(
        "text",
        [
            "(1, 2.5, 'a', True)",
            "[1, 2, 4, 8, 16] + list(range(32, 1024+1, 32))",
            "[1] + [2 * i for i in range(1, 11)]",
            "list(range(10, 0, -3))",
            "[32 * i for i in range(1, 32) if i % 3 == 0 and not i > 20]",
            "[i * 10 + j for i in (1, 2) for j in [i, 3] if i != j]",
            "[i if i > 2 else -i for i in range(5)]",
            "list(2**i for i in range(4))",
            "sorted([3, 1, 2])",
            "[max(i, 3) for i in range(6)]",
            "[-1, +2, 1e-3, 7 // 2, 7 / 2]",
            "[x for x in [1, 2, 3] if x in (1, 3)]",
            "[1 < i <= 3 for i in range(5)]",
            "  [1]  ",
            "list((1, 2))",
        ],
    )
    def test_same_as_python(self, text):
        found, wanted = list_of(text), eval(text.strip())
        assert [(type(one), one) for one in found] == [(type(one), one) for one in list(wanted)]

    def test_a_refusal_names_the_place(self):
        with pytest.raises(SpaceError, match=r"values '\[1, x\]', column 5: unknown name 'x'"):
            list_of("[1, x]")


T1 = {
    "General": {"FormatVersion": 1},
    "ConfigurationSpace": {
        "TuningParameters": [
            {"Name": "bx", "Type": "int", "Values": "[2**i for i in range(4, 9)]", "Default": 32},
            {"Name": "by", "Type": "int", "Values": [1, 2, 4], "Default": 3},
            {"Name": "one", "Type": "int", "Values": "[7]", "Default": [7]},
            {"Name": "kind", "Type": "string", "Values": "['a', 'b']"},
            {"Name": "pad", "Type": "bool", "Values": "[True, False]", "Default": True},
        ],
        "Conditions": [
            {"Expression": "bx * by <= 256", "Parameters": ["bx", "by"]},
            {"Expression": "kind == 'a' or by == one - 6", "Parameters": ["kind", "by"]},
        ],
    },
    "KernelSpecification": {"Language": "CUDA"},
}


class TestT1:
    def test_reads_everything(self):
        found = read_t1(T1)
        assert found.parameters == {
            "bx": Ordinal([16, 32, 64, 128, 256], default=32),
            "by": Ordinal([1, 2, 4]),
            "one": Ordinal([7], default=7),
            "kind": Categorical(["a", "b"]),
            "pad": Categorical([True, False], default=True),
        }
        assert found.constraints == ("bx * by <= 256", "kind == 'a' or by == one - 6")
        assert found.settings == {
            "General": {"FormatVersion": 1},
            "KernelSpecification": {"Language": "CUDA"},
        }
        assert [note.split(":")[0] for note in found.notes] == [
            "parameter 'by'",
            "condition \"kind == 'a' or by == one - 6\" reads kind, by, one, but declares kind, by",
        ]
        assert space_of(found).feasible_size == 2 * (12 + 5)

    def test_from_a_path(self, tmp_path):
        path = tmp_path / "space.json"
        path.write_text(json.dumps(T1))
        assert read_t1(path) == read_t1(str(path)) == read_t1(T1)

    @pytest.mark.parametrize(
        ("content", "word"),
        [
            ("{", "not JSON"),
            ("[1]", "not contain a JSON object"),
            ("[" * 100_000, "nested more than 32 deep"),
            ("\xff", "not JSON"),
        ],
    )
    def test_no_json(self, tmp_path, content, word):
        path = tmp_path / "broken.json"
        path.write_bytes(content.encode("latin-1"))
        for read in (read_t1, read_baco):
            with pytest.raises(SpaceError, match=word):
                read(path)

    @pytest.mark.parametrize(
        ("entries", "conditions", "word"),
        [
            (None, [], "TuningParameters"),
            ([{"Values": "[1]"}], [], "Name"),
            ([{"Name": "x"}], [], "parameter 'x'"),
            ([{"Name": "x", "Values": "[]"}], [], "parameter 'x': .*empty"),
            ([{"Name": "x", "Values": "[1, 1]"}], [], "parameter 'x': .*same"),
            ([{"Name": "x", "Values": "[1]"}] * 2, [], "'x' occurs twice"),
            ([{"Name": "x", "Values": "[1]"}], ["y > 1"], "unknown name 'y'"),
        ],
    )
    def test_refused(self, entries, conditions, word):
        space = {"TuningParameters": entries, "Conditions": conditions}
        with pytest.raises(SpaceError, match=word):
            read_t1({"ConfigurationSpace": space})
        with pytest.raises(SpaceError, match="ConfigurationSpace"):
            read_t1({})


class TestKernelTuner:
    def test_params_and_restrictions_as_they_are(self):
        tune_params = {
            "block_size_x": np.array([32, 16, 64]),
            "tile": [1, 2, 4],
            "vector": ["float", "float2"],
            "use_padding": [0, 1],
            "shared": [True, False],
        }
        found = read_kernel_tuner(
            tune_params,
            [
                "block_size_x*tile<=64",
                "use_padding==0 or block_size_x % 32 != 0",
                lambda block_size_x, tile: block_size_x > tile,
                lambda p: p["vector"] == "float" or p["tile"] > 1,
            ],
        )
        assert found.parameters["block_size_x"] == Ordinal([16, 32, 64])
        assert found.parameters["vector"] == Categorical(["float", "float2"])
        assert found.parameters["shared"] == Categorical([True, False])
        brute = [
            (int(bx), *rest)
            for bx, *rest in itertools.product(*tune_params.values())
            if bx * rest[0] <= 64 and (rest[2] == 0 or bx % 32 != 0) and bx > rest[0]
            if rest[1] == "float" or rest[0] > 1
        ]
        configs = [tuple(config.values()) for config in space_of(found)]
        assert sorted(map(repr, configs)) == sorted(map(repr, brute))

    @pytest.mark.parametrize(
        "restrictions", ["x > 1", lambda x: x > 1, ["x > 1"], (lambda p: p["x"] > 1,)]
    )
    def test_one_or_several(self, restrictions):
        assert space_of(read_kernel_tuner({"x": [1, 2, 3]}, restrictions)).feasible_size == 2

    def test_none(self):
        assert read_kernel_tuner({"x": [1]}).constraints == ()

    @pytest.mark.parametrize(
        ("params", "restrictions", "word"),
        [
            ({"x": []}, None, "parameter 'x': .*empty"),
            ({"x": "ab"}, None, "parameter 'x'"),
            ({"x": 5}, None, "parameter 'x'"),
            ({"x": [1]}, [5], "restriction 5"),
            ([1], None, "dictionary"),
        ],
    )
    def test_refused(self, params, restrictions, word):
        with pytest.raises(SpaceError, match=word):
            read_kernel_tuner(params, restrictions)


GAUSSIAN = {"parameter_type": "real", "values": [0, 1], "prior": "gaussian"}
ORDER = {"parameter_type": "permutation", "values": [3]}
COUNT = {"parameter_type": "integer", "values": [0, 3]}

# fmt: off
BACO = {
    "application_name": "demo",
    "optimization_objectives": ["time"],
    "input_parameters": {
        "tile": {
            "parameter_type": "ordinal",
            "values": [8, 2, 4],
            "transform": "log",
            "parameter_default": 4,
            "constraints": ["(tile <= n) & (n % tile == 0)"],
            "dependencies": ["n"],
            "prior": [1, 2, 3],
        },
        "n": {
            "parameter_type": "integer",
            "values": [1, 16],
            "parameter_default": 99,
            "colour": "red",
        },
        "r": {"parameter_type": "real", "values": [-5, 10], "prior": [0, 1, 0]},
        "g": {**GAUSSIAN, "values": [1, 100], "transform": "log", "prior_parameters": [10, 5]},
        "c": {
            "parameter_type": "categorical",
            "values": ["u", "v"],
            "parameter_default": "v",
            "prior": "decay",
        },
        "p": {
            "parameter_type": "permutation",
            "values": [3],
            "parametrization": "kendall",
            "parameter_default": [0, 1, 2],
            "constraints": ["~(p_0 == 2) | (p_i1 < p_i0) & (n > 3)"],
        },
    },
}
# fmt: on


class TestBaco:
    def test_reads_everything(self):
        found = read_baco(BACO)
        assert found.parameters == {
            "tile": Ordinal([8, 2, 4], log=True, default=4, prior=[1, 2, 3]),
            "n": Integer(1, 16),
            "r": Real(-5, 10, prior=PiecewiseLinear((0, 1, 0))),
            "g": Real(1, 100, log=True, prior=Gaussian(10, 0.5)),
            "c": Categorical(["u", "v"], default="v"),
            "p": Permutation([0, 1, 2], metric="kendall", default=(0, 1, 2)),
        }
        assert found.constraints == (
            "tile <= n and n % tile == 0",
            "not at(p, 0) == 2 or pos(p, 1) < pos(p, 0) and n > 3",
        )
        assert found.settings == {"application_name": "demo", "optimization_objectives": ["time"]}
        noted = "\n".join(found.notes)
        for word in (
            "'colour' is unknown",
            "default 99",
            "'decay'",
            "reads 'n', which is",
            "logarithm",
        ):
            assert word in noted
        assert len(found.notes) == 5

    def test_elements_and_positions(self):
        # p_0 is the element at position 0, p_i0 the position of element 0.
        parameters = {"p": Permutation(range(3))}
        for text, wanted in [
            ("p_0 == 2", lambda v: v[0] == 2),
            ("p_i0 == 2", lambda v: v.index(0) == 2),
            ("(p_1 != 1) & (p_i2 < p_i1)", lambda v: v[1] != 1 and v.index(2) < v.index(1)),
            ("~((p_2 == 0) | (p_i1 == 0))", lambda v: not (v[2] == 0 or v.index(1) == 0)),
        ]:
            python, names = from_numexpr(text, parameters)
            assert names == ("p",)
            orders = list(itertools.permutations(range(3)))
            columns = {"p": parameters["p"].column(parameters["p"].encode(orders))}
            found = Expression(python, parameters).holds(columns)
            assert found.tolist() == [wanted(order) for order in orders]

    def test_a_parameter_is_not_hidden_by_an_alias(self):
        parameters = {"p": Permutation(range(3)), "p_0": Integer(0, 9)}
        assert from_numexpr("p_0 > 5", parameters) == ("p_0 > 5", ("p_0",))

    @pytest.mark.parametrize(
        ("text", "python"),
        [
            ("x % 4 == 0", "x % 4 == 0"),
            ("x  <=  y*2", "x  <=  y*2"),
            ("(x < 3) & (y > 1)", "x < 3 and y > 1"),
            ("(x < 3) | (y > 1) & (x > 0)", "x < 3 or y > 1 and x > 0"),
            ("((x < 3) | (y > 1)) & (x > 0)", "(x < 3 or y > 1) and x > 0"),
            ("(x & (x - 1)) == 0", "(x & (x - 1)) == 0"),
            ("~(x < 3)", "not x < 3"),
            ("b & ~b", "b and not b"),
            ("where(x > 1, y, 2) > 3", "(y if x > 1 else 2) > 3"),
            ("(x - (y - 1)) * 2 > -(x + y) ** 2", "(x - (y - 1)) * 2 > -(x + y) ** 2"),
            (
                "(x < 3) & ((x - (y - 1)) * 2 > (-x) ** (2 ** y))",
                "x < 3 and (x - (y - 1)) * 2 > (-x) ** 2 ** y",
            ),
        ],
    )
    def test_dialect(self, text, python):
        parameters = {"x": Integer(0, 9), "y": Integer(0, 9), "b": Categorical([True, False])}
        assert from_numexpr(text, parameters)[0] == python
        Expression(python, parameters)

    @pytest.mark.parametrize(
        "text",
        ["x > 1 & y > 2", "x & y", "x & y == 0", "(x & y > 2)", "~x", "x > 1 & 1", "(x > 1) & y"],
    )
    def test_the_trap_of_precedence_is_refused(self, text):
        with pytest.raises(SpaceError, match=r"parentheses|write 'not'"):
            from_numexpr(text, {"x": Integer(0, 9), "y": Integer(0, 9)})

    @pytest.mark.parametrize(
        ("fields", "word"),
        [
            ({}, "parameter_type None"),
            ({"parameter_type": "integer_exp", "values": [1, 2]}, "'integer_exp' is unknown"),
            ({"parameter_type": "real", "values": [1]}, "min, max"),
            ({"parameter_type": "real", "values": [2, 1]}, "empty"),
            ({"parameter_type": "real"}, "values must be a list"),
            ({"parameter_type": "real", "values": [0, 1], "transform": "log"}, "positive"),
            ({"parameter_type": "integer", "values": [0, 3], "prior": [1, 2]}, "4 values"),
            ({"parameter_type": "permutation", "values": [3, 4]}, "n"),
            ({**ORDER, "parametrization": "cayley"}, "cayley"),
            ({**COUNT, "constraints": ["x > y"]}, "unknown name 'y'"),
            ({**COUNT, "constraints": 5}, "constraints must be a list"),
            ({**GAUSSIAN, "prior_parameters": [0.5, -1]}, "positive"),
            (7, "object"),
        ],
    )
    def test_refused(self, fields, word):
        with pytest.raises(SpaceError, match=word) as caught:
            read_baco({"input_parameters": {"x": fields}})
        assert "'x'" in str(caught.value)

    def test_no_parameters(self):
        with pytest.raises(SpaceError, match="input_parameters"):
            read_baco({})


ROWS = [
    {"bx": 32, "p": ("i", "j"), "s": "a", "flag": True, "one": 5},
    {"bx": 16, "p": ("j", "i"), "s": "a", "flag": False, "one": 5},
    {"bx": 64, "p": ("i", "j"), "s": "b", "flag": True, "one": 5},
    {"bx": 64, "p": ("j", "i"), "s": "b", "flag": True, "one": 5},
    {"bx": 16, "p": ("j", "i"), "s": "a", "flag": False, "one": 5},
]


class TestTable:
    def test_kinds(self):
        assert read_dataframe(ROWS).parameters == {
            "bx": Ordinal([16, 32, 64]),
            "p": Permutation(["i", "j"]),
            "s": Categorical(["a", "b"]),
            "flag": Categorical([True, False]),
            "one": Ordinal([5]),
        }

    def test_the_rows_are_the_space(self):
        space = space_of(read_dataframe(ROWS))
        wanted = {tuple(row.values()) for row in ROWS}
        assert {tuple(config.values()) for config in space} == wanted
        assert space.feasible_size == 4
        for config in space_of(read_dataframe([{**r} for r in ROWS])):
            assert space.contains(config)

    def test_from_pandas(self):
        pandas = pytest.importorskip("pandas")
        frame = pandas.DataFrame(ROWS)
        assert read_dataframe(frame).parameters == read_dataframe(ROWS).parameters
        assert {tuple(config.values()) for config in space_of(read_dataframe(frame))} == {
            tuple(r.values()) for r in ROWS
        }

    def test_explains_what_is_missing(self):
        space = space_of(read_dataframe(ROWS))
        lines = space.explain({"bx": 32, "p": ("j", "i"), "s": "a", "flag": True, "one": 5})
        assert lines == [
            "(bx, p, s, flag) is one of 4 rows of a table violated: "
            "bx = 32, p = ('j', 'i'), s = 'a', flag = True"
        ]

    @pytest.mark.parametrize(
        ("table", "word"),
        [
            ([], "no row"),
            ([{}], "no row"),
            ([5], "list of dictionaries"),
            ([{"a": 1}, {"b": 1}], "row 1"),
            ([{"a": 1}, {"a": None}], "'a' has no value in row 1"),
            ([{"a": 1.0}, {"a": float("nan")}], "'a' has no value in row 1"),
            ([{"a": {}}], "'a'"),
            ([{5: 1}], "5"),
            ([{"a": 1}, {"a": 1.0}], "parameter 'a': .*same number"),
        ],
    )
    def test_refused(self, table, word):
        with pytest.raises(SpaceError, match=word):
            read_dataframe(table)

    def test_frames_with_a_name_twice_are_refused(self):
        pandas = pytest.importorskip("pandas")
        with pytest.raises(SpaceError, match="names of the columns must differ"):
            read_dataframe(pandas.DataFrame([[1, 2], [2, 3]], columns=["a", "a"]))

    def test_one_row_and_one_column(self):
        assert space_of(read_dataframe([{"a": 1, "b": 2}])).feasible_size == 1
        assert space_of(read_dataframe([{"a": 1}, {"a": 2}])).feasible_size == 2


# ---- Spaces as T1 files: there and back, by the published schema, and refused where they do not fit ----


SPACE = Space(
    {
        "bx": Ordinal([16, 32, 64, 128], log=True, default=32),
        "share": Ordinal([0.5, 1, 2]),
        "unroll": Integer(1, 64, log=True),
        "kind": Categorical(["it's", 'a "b"', "\\n"], default="\\n"),
        "pad": Categorical([True, False], prior=[0.25, 0.75]),
        "level": Ordinal(["-O1", "-O2"]),
        "fixed": [7],
    },
    constraints=["bx * unroll <= 1024", "pad or bx % 32 == 0", "kind != 'it\\'s' or share > 1"],
)

numbers = st.lists(
    st.integers(1, 2**60) | st.floats(0.25, 1e9), min_size=1, max_size=5, unique_by=float
)
texts = st.lists(st.text(max_size=6), min_size=1, max_size=4, unique=True)
parameters = st.one_of(
    st.builds(Ordinal, numbers, log=st.booleans()),
    st.builds(Ordinal, texts.filter(lambda one: len(one) > 1)),
    st.builds(Categorical, texts),
    st.just(Categorical([True, False], default=False)),
    st.just(Categorical([1, "1", True])),
    st.builds(lambda low, size: Integer(low, low + size), st.integers(-9, 9), st.integers(0, 99)),
)


@given(st.dictionaries(st.text(min_size=1, max_size=4), parameters, min_size=1, max_size=3))
def test_there_and_back_nothing_changes(given: dict[str, Any]) -> None:
    space = Space(given)
    document = json.loads(json.dumps(to_t1(space)))
    assert Space.from_t1(document).to_dict() == space.to_dict()


def test_constraints_and_what_stands_beside_the_space(tmp_path: Path) -> None:
    kernel = {"Language": "CUDA", "KernelName": "gemm"}
    document = to_t1(SPACE, kernel, Budget=[{"Type": "ConfigurationCount", "BudgetValue": 9}])
    path = tmp_path / "T1.json"
    path.write_text(json.dumps(document))
    assert Space.from_t1(path).to_dict() == SPACE.to_dict()
    assert document["KernelSpecification"]["KernelName"] == "gemm"
    first, *_ = document["ConfigurationSpace"]["Conditions"]
    assert first == {"Expression": "bx * unroll <= 1024", "Parameters": ["bx", "unroll"]}
    written = {one["Name"]: one for one in document["ConfigurationSpace"]["TuningParameters"]}
    assert written["share"] == {"Name": "share", "Type": "float", "Values": "[0.5, 1, 2]"}
    assert written["unroll"]["Values"] == "list(range(1, 65))"
    assert (written["pad"]["Type"], written["level"]["Type"]) == ("bool", "string")
    assert "BacoLike" in written["bx"]  # its scale
    assert "BacoLike" not in written["fixed"]


def test_by_the_published_schema() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    pytest.importorskip("kernel_tuner")
    place = "schema/T1/1.0.0/input-schema.json"
    rules = json.loads(resources.files("kernel_tuner").joinpath(place).read_text())
    document = to_t1(SPACE)
    jsonschema.validate(document, rules)
    document["ConfigurationSpace"]["TuningParameters"][0]["Type"] = "ordinal"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, rules)


@pytest.mark.parametrize(
    ("space", "message"),
    [
        (Space({"r": Real(0, 1)}), "'r': a T1 file lists every value, and a Real"),
        (Space({"p": Permutation(["i", "j"])}), "'p': .* a Permutation"),
        (Space({"n": Integer(0, 10**6)}), "'n': .* an? Integer"),
        (
            Space({"k": ["a", "b"], "t": [1, 2]}, when={"t": "k == 'a'"}),
            "'t': it is active only when",
        ),
        (Space({"n": [1, 2]}, constraints=[lambda n: n > 1]), "not an expression"),
    ],
)
def test_refused(space: Space, message: str) -> None:
    with pytest.raises(SpaceError, match=message):
        to_t1(space)


def test_a_null_character_in_the_path_is_an_os_error():
    with pytest.raises(OSError, match="null character"):
        Space.from_t1("a\0b.json")
