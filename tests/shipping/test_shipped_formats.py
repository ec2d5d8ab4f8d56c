"""Each format is loaded by the program that uses it, or by a reader written from its specification."""

import json
import shutil
import subprocess
import sys
import types
from pathlib import Path

import hypothesis.strategies as st
import pytest
from headers import STRICT
from hypothesis import given, settings
from shipped_tables import SPACE, entry, imported, plain_space, single, stamp, table

from baco_like import Categorical, Integer, Ordinal, Permutation, Real, RunFileError, Space
from baco_like.shipping import Evidence, ShippedEntry, ShippedTable, read_table, ship
from baco_like.shipping.c_header import c_integer, header_bytes
from baco_like.shipping.formats import FORMATS
from baco_like.shipping.json_table import table_schema


def kernel_table(names, tasks, device="NVIDIA A100"):
    """A table of a GPU kernel: tile sizes, one entry for each task."""
    space = plain_space(names)
    entries = tuple(
        ShippedEntry(
            task, {n: (16, 32, 64)[(i + k) % 3] for k, n in enumerate(names)}, Evidence(0.5)
        )
        for i, task in enumerate(tasks)
    )
    return ShippedTable(entries, None, space, stamp(device=device))


@pytest.mark.parametrize("kind", FORMATS)
def test_every_format_has_its_stamp(kind, tmp_path):
    axes = {"M": 16, "x": 64, "op": "mm", "dtype": "float16", "N": 32, "K": 64, "E": 8}
    needed = {"vllm": ["M", "E", "N"], "inductor": ["op", "dtype", "M", "N", "K"], "wisdom": ["x"]}
    task = {name: axes[name] for name in needed.get(kind, ["M"])}
    names = ["BLOCK_SIZE_M", "BLOCK_SIZE_N", "BLOCK_SIZE_K", "GROUP_SIZE_M"]
    rows = kernel_table(names, [task])
    path = ship(rows, kind, tmp_path / "shipped.txt")
    assert rows.stamp.space in path.read_text()


# C ----------------------------------------------------------------------------------------------------------------

needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs GCC")


def compile_c(folder, source, *options, compiler="gcc"):
    (folder / "main.c").write_text(source)
    command = [compiler, "-std=c99", *STRICT, *options, "main.c", "-lm", "-o", "main"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


VALUES = Space(
    {
        "unroll": Integer(1, 8),
        "shift": Integer(-9, 9),
        "tile": Ordinal([8, 16, 32]),
        "lanes": Categorical([4, 1, 2]),
        "seed": Integer(2**63, 2**63 + 9),
        "key": Integer(-(2**63), -(2**63) + 9),
        "fast": [True, False],
        "share": Real(0, 1),
        "scale": Ordinal([1, 2.5]),
        "flag": ["", "-O2", "-O3", "o3"],
        "kind": Categorical(["auto", 1, True, "1"]),
        "order": Permutation(["k", "i", "j"]),
        "axes": Permutation([2, 0, 1]),
    }
)
GIVEN = {
    "unroll": 2,
    "shift": -7,
    "tile": 16,
    "lanes": 4,
    "seed": 2**63 + 5,
    "key": -(2**63),
    "fast": True,
    "share": 1.0,
    "scale": 1,
    "flag": "-O3",
    "kind": "1",
    "order": ("k", "i", "j"),
    "axes": (2, 0, 1),
}
USE = """
#include "tuned.h"
#if TUNED_UNROLL != 2 || TUNED_SHIFT != -7 || TUNED_TILE % 5 != 1 || TUNED_LANES / 3 != 1
#error "an integer has another value"
#endif
#if TUNED_SEED != 9223372036854775813u || TUNED_KEY + 1 != -9223372036854775807 || !TUNED_FAST
#error "an integer of 64 bits or a boolean has another value"
#endif
#if TUNED_FLAG_ENUM != TUNED_FLAG_O3 || TUNED_FLAG_ENUM == TUNED_FLAG_O3_2
#error "an enum has another value"
#endif
#if TUNED_KIND_ENUM != TUNED_KIND_1_2 || TUNED_KIND_TRUE == TUNED_KIND_AUTO
#error "an enum of several types has another value"
#endif
static int block[TUNED_TILE][TUNED_UNROLL];
static enum tuned_flag_enum flag = tuned_flag_o3;
static const long long axes[] = TUNED_AXES;
static const int order[] = TUNED_ORDER_ENUM;
int main() {
    const tuned_config *config = tuned_select();
    switch (config->flag_enum) {
    case tuned_flag_: case tuned_flag_o2: case tuned_flag_o3_2: return 1;
    case tuned_flag_o3: break;
    }
    if (sizeof block != 32 * sizeof(int) || config->unroll % 3 != 2 || config->shift % 4 != -3)
        return 2;
    if (config->flag_enum != flag || strcmp(config->flag, TUNED_FLAG) || strcmp(TUNED_FLAG, "-O3"))
        return 3;
    if (config->seed != TUNED_SEED || config->key >= 0 || !config->fast) return 4;
    if (config->scale / 2 != 0.5 || TUNED_SCALE / 2 != 0.5 || TUNED_SHARE / 2 != 0.5) return 5;
    if (axes[0] != 2 || config->axes[2] != 1 || order[0] != TUNED_ORDER_K) return 6;
    if (config->order_enum[1] != tuned_order_i || strcmp(config->order[2], "j")) return 7;
    return strcmp(TUNED_KIND, "1") != 0;
}
"""


@pytest.mark.parametrize(
    ("compiler", "standard"), [("gcc", "-std=c99"), ("g++", "-std=c++11"), ("g++", "-std=c++20")]
)
def test_values_of_a_header_are_used_as_numbers_enums_and_texts(tmp_path, compiler, standard):
    if shutil.which(compiler) is None:
        pytest.skip(f"needs {compiler}")
    rows = ShippedTable((ShippedEntry({}, GIVEN, Evidence(1.0)),), None, VALUES, stamp())
    ship(rows, "c", tmp_path / "tuned.h")
    (tmp_path / "use").write_text(USE)
    language = "c" if compiler == "gcc" else "c++"
    command = [compiler, standard, *STRICT, "-x", language, "use", "-o", "main"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert subprocess.run([tmp_path / "main"], check=False).returncode == 0


@needs_gcc
@settings(max_examples=5)
@given(st.lists(st.integers(-(2**63), 2**64 - 1) | st.integers(-9, 9), min_size=8, max_size=30))
def test_every_integer_of_64_bits_is_the_same_in_c(tmp_path_factory, values):
    folder = tmp_path_factory.mktemp("integers")
    space = Space({f"p{i}": Integer(value, value) for i, value in enumerate(values)})
    rows = ShippedTable(
        (ShippedEntry({}, space.sample(1, seed=0)[0], Evidence(1.0)),), None, space, stamp()
    )
    ship(rows, "c", folder / "tuned.h")
    digits = "".join(
        f"#if TUNED_P{i} < 0 || (TUNED_P{i}) % 10 != {v % 10}\n#error p{i}\n#endif\n"
        for i, v in enumerate(values)
        if v >= 0
    )
    signs = "".join(
        f"#if TUNED_P{i} >= 0 || -((TUNED_P{i}) % 10) != {-v % 10}\n#error p{i}\n#endif\n"
        for i, v in enumerate(values)
        if v < 0
    )
    printed = "".join(
        f'    printf("%{"llu" if v >= 2**63 else "lld"} ", tuned_table->p{i});\n'
        for i, v in enumerate(values)
    )
    source = f'#include "tuned.h"\n#include <stdio.h>\n{digits}{signs}int main(void) {{\n{printed}return 0;\n}}'
    done = compile_c(folder, source)
    assert done.returncode == 0, done.stderr
    out = subprocess.run([folder / "main"], capture_output=True, text=True, check=True).stdout
    assert [int(word) for word in out.split()] == values


def test_integers_beyond_the_types_of_c_are_refused():
    for value, other in ((2**64, 0), (-(2**63) - 1, 0), (2**63, -1)):
        space = Space({"p": Ordinal([value, other])})
        rows = ShippedTable((ShippedEntry({}, {"p": value}, Evidence(1.0)),), None, space, stamp())
        with pytest.raises(RunFileError, match=f"{value} does not fit the 64 bits"):
            header_bytes(rows)
        small = ShippedEntry({}, {"p": other}, Evidence(1.0))
        assert f"#define TUNED_P {c_integer(other)}\n".encode() in header_bytes(
            ShippedTable((small,), None, space, stamp())
        )


@pytest.mark.parametrize("kind", [kind for kind in FORMATS if kind != "c"])
def test_values_keep_their_types_in_every_format(kind, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "triton", types.SimpleNamespace(Config=Config))
    parameters = {name: p for name, p in VALUES.parameters.items() if name not in ("order", "axes")}
    parameters |= {name: Integer(1, 99) for name in MOE} | {"wide": Integer(2**80, 2**80 + 9)}
    given = {name: GIVEN.get(name, 7) for name in parameters} | {"wide": 2**80 + 1}
    axes = {"vllm": {"M": 1, "E": 2, "N": 3}, "inductor": {"key": "a+mm"}, "wisdom": {"x": 1}}
    entry = ShippedEntry(axes.get(kind, {}), given, Evidence(1.0))
    rows = ShippedTable((entry,), None, Space(parameters), stamp(device="GPU"))
    path = ship(rows, kind, tmp_path / "shipped.py")
    if kind in ("python", "triton"):
        module = imported(path)
        found = module.select()
        if kind == "triton":
            assert module.CONFIGS[0].kwargs | {"num_warps": module.CONFIGS[0].num_warps} == given
    elif kind == "wisdom":
        header, record = map(json.loads, path.read_text().splitlines())
        found = dict(zip(header["tunable_parameters"], record["config"], strict=True))
    else:
        document = json.loads(path.read_text())
        found = {
            "json": lambda: document["entries"][0]["config"],
            "vllm": lambda: document["1"],
        }.get(kind, lambda: document["a+mm"][0])()
        found.pop("template_id", None)
    assert [(n, type(v), v) for n, v in found.items()] == [
        (n, type(v), v) for n, v in given.items()
    ]


def test_an_integer_that_another_program_wrote_as_a_real_is_read_as_an_integer(tmp_path):
    rows = ShippedTable((ShippedEntry({}, GIVEN, Evidence(1.0)),), None, VALUES, stamp())
    path = ship(rows, "json", tmp_path / "tuned.json")
    text = path.read_text().replace('"unroll": 2,', '"unroll": 2.0,')
    assert "2.0" in text
    path.write_text(text)
    (entry,) = read_table(path).entries
    assert [type(entry.config[name]) for name in ("unroll", "share", "fast")] == [int, float, bool]


def test_a_constraint_in_c_is_not_computed_with_rounded_integers():
    space = Space({"wide": Integer(2**60, 2**60 + 9)})
    rows = ShippedTable(
        (ShippedEntry({"n": 2**61 + 2}, {"wide": 2**60 + 1}, Evidence(1.0)),),
        None,
        space,
        stamp(),
        ("n % wide == 0",),
    )
    with pytest.raises(RunFileError, match="beyond 2\\*\\*53"):
        header_bytes(rows)


def test_constraints_without_an_equivalent_in_c_are_refused():
    with pytest.raises(RunFileError, match="cannot be written in C: it orders texts"):
        header_bytes(table(["device < 'z'"]))


@pytest.mark.parametrize("name", ["", "1a", "a b", "int", "a;", "_a"])
def test_a_name_that_is_no_identifier_is_refused(name):
    with pytest.raises(RunFileError, match="expected a letter"):
        header_bytes(single(), name)


# JSON -------------------------------------------------------------------------------------------------------------


def test_the_schema_of_a_json_table_refuses_changes(tmp_path):
    jsonschema = pytest.importorskip("jsonschema")
    document = json.loads(ship(table(), "json", tmp_path / "tuned.json").read_text())
    validator = jsonschema.Draft7Validator(table_schema())
    assert validator.is_valid(document)
    for change in ({"format": 2}, {"entries": []}, {"other": 1}, {"default": {"tile": {}}}):
        assert not validator.is_valid({**document, **change})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 2}, "no table of baco-like with the format 1"),
        ({"entries": [{}]}, "missing required field `task` - at `..entries.0.`"),
        ({"default": {"tile": 7}}, "tile = 7 is not a value of its parameter"),
        ({"default": [1]}, "object . null`, got `array` - at `..default`"),
        ({"stamp": {"space": 3}}, "`str`, got `int` - at `..stamp.space`"),
        ({"stamp": {"space": "a", "device": 3}}, "got `int` - at `..stamp.device`"),
        ({"space": {"parameters": 3}}, "damaged table|version|parameters"),
    ],
)
def test_a_damaged_table_is_an_error_that_names_the_file(change, message, tmp_path):
    path = ship(table(), "json", tmp_path / "tuned.json")
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(RunFileError, match=message) as caught:
        read_table(path)
    assert "tuned.json" in str(caught.value)


# Python and Triton ------------------------------------------------------------------------------------------------


def test_a_python_module_explains_what_is_wrong(tmp_path):
    rows = table(device="cpu 1")
    module = imported(ship(rows, "python", tmp_path / "tuned.py"))
    assert module.select(device="gpu", n=4096)["tile"] == 32
    with pytest.raises(LookupError, match="no tuned configuration"):
        module.select(n=1, device="cpu")
    with pytest.raises(TypeError, match="expected the descriptors n, device"):
        module.select(n=1)


class Config:
    """`triton.Config` by its signature, for machines without Triton."""

    def __init__(self, kwargs, num_warps=4, num_stages=3, num_ctas=1, maxnreg=None):
        self.kwargs, self.num_warps, self.num_stages = kwargs, num_warps, num_stages
        self.num_ctas, self.maxnreg = num_ctas, maxnreg


@pytest.mark.parametrize("is_real", [True, False], ids=["triton", "stand-in"])
def test_a_triton_module_has_one_config_for_each_task(is_real, tmp_path, monkeypatch):
    if is_real:
        pytest.importorskip("triton")
    else:
        monkeypatch.setitem(sys.modules, "triton", types.SimpleNamespace(Config=Config))
    rows = kernel_table(["BLOCK", "num_warps"], [{"n": 64}, {"n": 4096}])
    module = imported(ship(rows, "triton", tmp_path / "tuned.py"))
    assert module.KEY == ["n"]
    assert [c.kwargs for c in module.CONFIGS] == [{"BLOCK": 16}, {"BLOCK": 32}]
    assert [c.num_warps for c in module.CONFIGS] == [32, 64]
    (kept,) = module.prune(module.CONFIGS, {"x": None, "n": 5000}, other=1)
    assert kept is module.CONFIGS[1] is module.config(n=5000)


def test_options_of_triton_are_whole_numbers():
    rows = ShippedTable((entry(8),), None, SPACE, stamp())
    odd = ShippedEntry({}, {"num_warps": 0.5}, Evidence(1.0))
    with pytest.raises(RunFileError, match="needs a whole number"):
        FORMATS["triton"](ShippedTable((odd,), None, rows.space, stamp()))


# vLLM -------------------------------------------------------------------------------------------------------------

MOE = ["BLOCK_SIZE_M", "BLOCK_SIZE_N", "BLOCK_SIZE_K", "GROUP_SIZE_M", "num_warps"]


def moe_reader(folder, experts, size, device):
    """Read as ``get_moe_configs`` of vLLM does."""
    path = Path(folder, f"E={experts},N={size},device_name={device}.json")
    document = json.loads(path.read_text())
    document.pop("triton_version", None)
    return {int(key): config for key, config in document.items()}


def test_vllm_finds_the_table_by_its_name_and_the_nearest_batch(tmp_path):
    tasks = [{"M": m, "E": 8, "N": 7168} for m in (4096, 1, 64)]
    rows = kernel_table(MOE, tasks)
    ship(rows, "vllm", tmp_path)
    configs = moe_reader(tmp_path, 8, 7168, "NVIDIA_A100")
    assert list(configs) == [1, 64, 4096]
    assert {m: configs[m] for m in configs} == {e.task["M"]: e.config for e in rows.entries}
    ship(kernel_table(MOE, tasks[:1], "NVIDIA H200 141GB"), "vllm", tmp_path)
    assert moe_reader(tmp_path, 8, 7168, "NVIDIA_H200")


@pytest.mark.parametrize(
    ("names", "tasks", "message"),
    [
        (MOE, [{"E": 8, "N": 1}], "needs a whole number M"),
        (MOE, [{"M": 1, "E": 8, "N": 1}, {"M": 2, "E": 9, "N": 1}], "about one shape"),
        (MOE[:2], [{"M": 1, "E": 8, "N": 1}], "lack BLOCK_SIZE_K, GROUP_SIZE_M"),
    ],
)
def test_a_table_that_vllm_cannot_use_is_refused(names, tasks, message, tmp_path):
    with pytest.raises(RunFileError, match=message):
        ship(kernel_table(names, tasks), "vllm", tmp_path / "table.json")


# Inductor ---------------------------------------------------------------------------------------------------------


class KernelInputs:
    """The part of Inductor's inputs that a key is made of."""

    def __init__(self, torch, dtype, shapes, strides, scalars):
        self._device, self._dtypes = torch.device("cpu"), (dtype,) * len(shapes)
        self._shapes, self._strides, self._scalars = shapes, strides, scalars

    def device(self):
        return self._device

    def dtypes(self):
        return self._dtypes

    def shapes_hinted(self):
        return self._shapes

    def strides_hinted(self):
        return self._strides


def test_inductor_finds_the_configuration_of_each_shape(tmp_path):
    torch = pytest.importorskip("torch", minversion="2.9")
    choices = pytest.importorskip("torch._inductor.lookup_table")
    sizes = {"M": 64, "N": 128, "K": 256, "dtype": "float16"}
    key = "((torch.float32, [5, 7], [7, 1]), (torch.float32, [7, 3], [3, 1]))+mm"
    tasks = [
        {"op": op, **sizes, **({"B": 4} if op == "bmm" else {})} for op in ("mm", "addmm", "bmm")
    ]
    document = {}
    for task in (*tasks, {"key": key}):
        rows = kernel_table(["BLOCK_M", "num_warps"], [task])
        document |= json.loads(ship(rows, "inductor", tmp_path / "table.json").read_text())

    class Choices(choices.LookupTableChoices):
        def _get_lookup_table(self):
            return document

        @staticmethod
        def _get_device_key(device):
            return "some device"  # without one, Inductor uses no table

    half, none = torch.float16, {}
    cases = [
        ("mm", half, [(64, 256), (256, 128)], [(256, 1), (128, 1)], none),
        ("addmm", half, [(64, 128), (64, 256), (256, 128)], [(0, 1), (256, 1), (128, 1)], {"alpha": 1, "beta": 1}),
        ("bmm", half, [(4, 64, 256), (4, 256, 128)], [(16384, 256, 1), (32768, 128, 1)], none),
        ("mm", torch.float32, [(5, 7), (7, 3)], [(7, 1), (3, 1)], none),
    ]  # fmt: skip
    for op, dtype, shapes, strides, scalars in cases:
        inputs = KernelInputs(torch, dtype, shapes, strides, scalars)
        template = "triton::bmm" if op == "bmm" else "triton::mm"
        found = Choices().lookup_template_configs(inputs, op, [template])
        assert found == {template: [{"BLOCK_M": 16, "num_warps": 32}]}
    other = KernelInputs(torch, half, [(65, 256), (256, 128)], [(256, 1), (128, 1)], none)
    assert Choices().lookup_template_configs(other, "mm", ["triton::mm"]) == {}


def test_a_task_without_a_shape_has_no_key(tmp_path):
    for task in ({"n": 1}, {"op": "conv", "dtype": "float16", "M": 1, "N": 1, "K": 1}):
        with pytest.raises(RunFileError, match="needs the descriptors op"):
            ship(kernel_table(["a"], [task]), "inductor", tmp_path / "table.json")


# Kernel Launcher --------------------------------------------------------------------------------------------------


def wisdom_reader(text, key, parameters, size, device):
    """Read version 1.0 of the format, and choose as Kernel Launcher does."""
    header, *records = map(json.loads, text.splitlines())
    assert (header["version"], header["key"], header["objective"]) == ("1.0", key, "time")
    assert set(header["tunable_parameters"]) == set(parameters)
    best = None
    for record in records:
        volume = 1
        for axis in record["problem_size"]:
            volume *= axis
        is_same = record["environment"]["device_name"] == device
        rank = (not is_same, abs(volume - size), float(record[header["objective"]]))
        if best is None or rank < best[0]:
            best = (rank, dict(zip(header["tunable_parameters"], record["config"], strict=True)))
    return best[1]


def test_kernel_launcher_finds_the_record_of_the_device_and_size(tmp_path):
    tasks = [{"x": 64, "y": 64}, {"x": 1024, "y": 1024}]
    rows = kernel_table(["block_size", "unroll"], tasks)
    path = ship(rows, "wisdom", tmp_path, "vector_add<float>")
    assert path.name == "vector_add_float_.wisdom"
    text = path.read_text()
    for row in rows.entries:
        size = row.task["x"] * row.task["y"]
        names = ["block_size", "unroll"]
        found = wisdom_reader(text, "vector_add<float>", names, size + 1, "NVIDIA A100")
        assert found == row.config


@pytest.mark.parametrize(
    ("task", "device", "message"),
    [
        ({"y": 3}, "GPU", "needs the descriptors x"),
        ({"x": 3, "n": 3}, "GPU", "and no others"),
        ({"x": 3}, None, "needs the name of the device"),
    ],
)
def test_a_table_that_kernel_launcher_cannot_use_is_refused(task, device, message, tmp_path):
    with pytest.raises(RunFileError, match=message):
        ship(kernel_table(["a"], [task], device), "wisdom", tmp_path / "k.wisdom")


def test_permutations_have_no_place_in_tables_of_kernels(tmp_path):
    rows = ShippedTable((entry(8, x=3),), None, SPACE, stamp(device="GPU"))
    with pytest.raises(RunFileError, match=r"order = .* is a tuple, which"):
        ship(rows, "wisdom", tmp_path / "k.wisdom")
