"""Each format is loaded by the program that uses it, or by a reader written from its specification."""

import json
import shutil
import subprocess
import sys
import types
import warnings
from pathlib import Path

import pytest
from shipped_tables import SPACE, entry, imported, plain_space, single, stamp, table

from baco_like import RunFileError
from baco_like.shipping import (
    FORMATS,
    Evidence,
    ShippedEntry,
    ShippedTable,
    read_stamp,
    read_table,
    ship,
    table_schema,
)
from baco_like.shipping.c_header import header_bytes

TASKS = [
    (n, device)
    for n in (1, 8, 12, 16, 48, 63, 64, 100, 128, 500, 512, 4096, 10_000, 999_996, 2**40)
    for device in ("cpu", "gpu", "mi250", "?")
]


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


def chosen(rows, n, device):
    """The index that the table itself chooses, or -1."""
    configs = [row.config for row in rows.entries] + [rows.default]
    try:
        return configs.index(rows.select({"n": n, "device": device}))
    except ValueError:  # none may be used
        return -1


@pytest.mark.parametrize("kind", FORMATS)
def test_every_format_has_its_stamp(kind, tmp_path):
    axes = {"M": 16, "x": 64, "op": "mm", "dtype": "float16", "N": 32, "K": 64, "E": 8}
    needed = {"vllm": ["M", "E", "N"], "inductor": ["op", "dtype", "M", "N", "K"], "wisdom": ["x"]}
    task = {name: axes[name] for name in needed.get(kind, ["M"])}
    names = ["BLOCK_SIZE_M", "BLOCK_SIZE_N", "BLOCK_SIZE_K", "GROUP_SIZE_M"]
    rows = kernel_table(names, [task])
    path = ship(rows, kind, tmp_path / "shipped.txt")
    assert read_stamp(path) == rows.stamp


# C ----------------------------------------------------------------------------------------------------------------

needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs GCC")
ASK = """
#include "tuned.h"
#include <stdio.h>
int main(void) {
    double n; char device[64];
    while (scanf("%lf %63s", &n, device) == 2)
        printf("%d %lld\\n", tuned_index(n, device),
               tuned_select(n, device) ? tuned_select(n, device)->tile : -1);
    return TUNED_0_TILE != tuned_table[0].tile;
}
"""


def compile_c(folder, source, *options, compiler="gcc"):
    (folder / "main.c").write_text(source)
    strict = ("-Wall", "-Wextra", "-pedantic", "-Werror", "-std=c99")
    command = [compiler, *strict, *options, "main.c", "-lm", "-o", "main"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@needs_gcc
def test_the_function_of_a_c_header_chooses_as_the_table_does(tmp_path):
    rows = table()
    ship(rows, "c", tmp_path / "tuned.h")
    done = compile_c(tmp_path, ASK)
    assert done.returncode == 0, done.stderr
    asked = "".join(f"{n} {device}\n" for n, device in TASKS)
    out = subprocess.run(
        [tmp_path / "main"], input=asked, capture_output=True, text=True, check=True
    )
    indices = [chosen(rows, n, device) for n, device in TASKS]
    tiles = [16, 64, 32, 8, -1]
    assert out.stdout.splitlines() == [f"{i} {tiles[i]}" for i in indices]
    assert set(indices) == {-1, 0, 1, 2, 3}  # each answer occurs


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs G++")
def test_a_header_is_c_plus_plus_too(tmp_path):
    ship(single(), "c", tmp_path / "tuned.h")
    source = (
        '#include "tuned.h"\nstatic const long long order_size = sizeof(tuned_table[0].order);\n'
    )
    source += "int main() { return tuned_select()->tile == TUNED_TILE && order_size ? 0 : 1; }"
    (tmp_path / "main.cpp").write_text(source)
    command = ["g++", "-std=c++11", "-Wall", "-Wextra", "-Werror", "main.cpp", "-o", "main"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert subprocess.run([tmp_path / "main"], check=False).returncode == 0


@needs_gcc
def test_a_stale_header_warns_or_is_refused_by_the_compiler(tmp_path):
    source = '#include "tuned.h"\nint main(void) { return 0; }'
    ship(single(compiler="gcc (Debian 3.1.0-1) 3.1.0"), "c", tmp_path / "tuned.h")
    warned = compile_c(tmp_path, source, "-Wno-error")
    assert warned.returncode == 0
    assert "tuned with GCC 3" in warned.stderr
    refused = compile_c(tmp_path, source, "-Wno-error", "-DTUNED_REFUSE_STALE")
    assert refused.returncode != 0
    assert "tuned with GCC 3" in refused.stderr
    assert compile_c(tmp_path, source, "-DTUNED_ALLOW_STALE").stderr == ""
    other = compile_c(tmp_path, source, "-DTUNED_ALLOW_STALE", "-DTUNED_EXPECT_SPACE=0x1ULL")
    assert "the space has changed" in other.stderr
    assert other.returncode != 0


def test_constraints_without_an_equivalent_in_c_are_refused():
    with pytest.raises(RunFileError, match="cannot be written in C: it orders texts"):
        header_bytes(table(["device < 'z'"]))


@pytest.mark.parametrize("name", ["", "1a", "a b", "int", "a;", "_a"])
def test_a_name_that_is_no_identifier_is_refused(name):
    with pytest.raises(RunFileError, match="expected a letter"):
        header_bytes(single(), name)


# JSON -------------------------------------------------------------------------------------------------------------


def test_a_json_table_satisfies_its_schema_and_is_read_again(tmp_path):
    jsonschema = pytest.importorskip("jsonschema")
    rows = table()
    path = ship(rows, "json", tmp_path / "tuned.json")
    document = json.loads(path.read_text())
    validator = jsonschema.Draft7Validator(table_schema())
    validator.validate(document)
    for change in ({"format": 2}, {"entries": []}, {"other": 1}, {"default": {"tile": None}}):
        assert not validator.is_valid({**document, **change})
    again = read_table(path)
    assert (again.entries, again.default, again.stamp) == (rows.entries, rows.default, rows.stamp)
    assert [chosen(again, *task) for task in TASKS] == [chosen(rows, *task) for task in TASKS]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 2}, "no table of baco-like with the format 1"),
        ({"entries": [{}]}, "a damaged table"),
        ({"default": {"tile": 7}}, "tile = 7 is not a value of its parameter"),
        ({"default": [1]}, "is no object"),
        ({"stamp": {"space": 3}}, "no fingerprint"),
        ({"stamp": {"space": "a", "device": 3}}, "'device' is 3, not a text"),
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


def test_a_python_module_chooses_as_the_table_does(tmp_path):
    rows = table(device="cpu 1")
    module = imported(ship(rows, "python", tmp_path / "tuned.py"))
    for n, device in TASKS:
        assert module.index(n=n, device=device) == chosen(rows, n, device)
    assert module.select(device="gpu", n=4096)["tile"] == 32
    with pytest.raises(LookupError, match="no tuned configuration"):
        module.select(n=1, device="cpu")
    with pytest.raises(TypeError, match="expected the descriptors n, device"):
        module.select(n=1)
    with pytest.warns(UserWarning, match="tuned with device 'cpu 1', now 'cpu 2'"):
        module.warn_if_stale(device="cpu 2", compiler="gcc")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        module.warn_if_stale(device="cpu 1", space=rows.stamp.space)


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


@pytest.mark.parametrize("kind", ["vllm", "wisdom"])
def test_programs_that_know_no_constraints_get_no_table_with_some(kind, tmp_path):
    with pytest.raises(RunFileError, match="without the constraint 'tile <= n'"):
        ship(table(["tile <= n"]), kind, tmp_path / "table")
    assert list(tmp_path.iterdir()) == []


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
    with pytest.raises(RunFileError, match="order is a permutation"):
        ship(rows, "wisdom", tmp_path / "k.wisdom")
