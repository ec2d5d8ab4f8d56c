"""Files that values depend on: which are found, and that each change of one changes the hashes."""

import pytest
from kernel_checks import KERNELS

from baco_like.evaluators import content_hashes
from baco_like.evaluators.sources import table_hashes
from baco_like.exceptions import EvaluatorError


def write(folder, **files):
    """Write files; ``__`` in a name is a slash, and the last ``_`` a dot."""
    for name, text in files.items():
        path = folder / ".".join(name.replace("__", "/").rsplit("_", 1))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def names(hashes):
    return {name.removeprefix("content of ") for name in hashes}


def test_a_python_file_and_its_modules(tmp_path):
    write(
        tmp_path,
        kernel_py="import numpy, helper\nfrom parts import tiles, other as o\nfrom parts.deep.x import y\n"
        "def f():\n    from lazy import z\n",
        helper_py="import indirect",
        indirect_py="import kernel",  # a circle
        lazy_py="x = (",  # no Python
        unrelated_py="",
        parts__init_py="",
        parts__tiles_py="from . import near\nfrom .near import a\nfrom ..helper import b\nimport helper",
        parts__near_py="",
        parts__unrelated_py="",
        parts__deep__x_py="from ...lazy import c",
    )
    (tmp_path / "parts" / "init.py").rename(tmp_path / "parts" / "__init__.py")
    expected = "kernel helper indirect lazy parts/__init__ parts/tiles parts/near parts/deep/x"
    wanted = {f"{name}.py" for name in expected.split()}
    assert names(content_hashes([tmp_path / "kernel.py"], tmp_path)) == wanted
    assert names(content_hashes(["kernel.py"], tmp_path)) == wanted


def test_headers_and_sources_that_texts_name(tmp_path):
    write(
        tmp_path,
        kernels__gemm_py="SOURCE = Path(__file__).with_suffix('.cl').read_text()\nOTHER = 'more.cu'\n"
        "TEXT = f'#include \"inline.h\"\\n void {1}'\nLOG = 'log.txt'",
        kernels__gemm_cl=' #  include "tiles/a.h"\n#include <stdio.h>\n// "unrelated.h"',
        kernels__tiles__a_h='#include "b.h"\n#include "../c.h"\n#include "root.h"',
        kernels__tiles__b_h='#include "a.h"',
        kernels__c_h="",
        kernels__root_h="",
        kernels__more_cu="",
        kernels__inline_h="",
        kernels__log_txt="",
        kernels__unrelated_h="",
    )
    found = table_hashes({"problem": "kernels/gemm.py"}, tmp_path)
    wanted = "gemm.py gemm.cl tiles/a.h tiles/b.h c.h root.h more.cu inline.h"
    assert names(found) == {f"kernels/{name}" for name in wanted.split()}


@pytest.mark.parametrize(
    ("table", "wanted"),
    [
        ({"build": "gcc -O{x} main.c -o {workdir}/app", "run": "{workdir}/app"}, "main.c a.h"),
        ({"run": "python3 bench.py --data data.bin"}, "bench.py helper.py"),
        ({"run": "./app {x}"}, "app"),
        ({"build": "gcc main.c -o ./app", "run": "./app {x}"}, "main.c a.h"),  # built each time
        ({"run": "sh -c 'cc -I. main.c; ./app'"}, "main.c a.h"),
        ({"run": "cp kernel_{variant}.c {workdir}/out.c"}, "kernel_1.c kernel_2.c"),
        ({"run": "python3 'a b.py'", "check": "python3 bench.py"}, "bench.py helper.py;a b.py"),
        ({"run": "echo", "before": "sh clean.sh"}, "clean.sh"),
        ({"run": "echo", "reference": "data.bin"}, "data.bin"),
        ({"run": "echo", "files": ["data.bin", "main.c"]}, "data.bin main.c a.h"),
        ({"function": "bench:run"}, "bench.py helper.py"),
        ({"file": "data.bin"}, "data.bin"),
        ({"problem": "bench.py", "constants": {"TENSOR": "data.bin", "N": 3}}, "bench.py helper.py data.bin"),
        ({"run": "unclosed '", "files": []}, ""),
        ({"run": "echo ../../../etc/passwd /dev/zero.c"}, ""),
    ],
)  # fmt: skip
def test_files_that_a_table_names(tmp_path, table, wanted):
    write(
        tmp_path, main_c='#include "a.h"', a_h="", bench_py="import helper", helper_py="", app_=""
    )
    write(tmp_path, kernel_1_c="", kernel_2_c="", clean_sh="", data_bin="")
    (tmp_path / "app.").rename(tmp_path / "app")
    (tmp_path / "a b.py").touch()
    files, _, spaced = wanted.partition(";")
    assert names(table_hashes(table, tmp_path)) == {*files.split(), *filter(None, [spaced])}


def test_a_change_of_any_file_changes_the_hashes(tmp_path):
    write(tmp_path, kernel_py="import helper\nSOURCE = '#include \"a.h\"'", helper_py="", a_h="")
    table = {"problem": "kernel.py"}
    before = table_hashes(table, tmp_path)
    assert len(before) == 3
    for name in ("kernel.py", "helper.py", "a.h"):
        path = tmp_path / name
        text = path.read_text()
        path.write_text(text + "\n")
        changed = {
            key for key, value in table_hashes(table, tmp_path).items() if before[key] != value
        }
        assert changed == {f"content of {name}"}
        path.write_text(text)
    assert table_hashes(table, tmp_path) == before


def test_the_examples_depend_on_their_sources():
    found = names(content_hashes(["cuda_convolution.py"], KERNELS))
    assert found == {
        "cuda_convolution.py",
        "cuda_convolution.cu",
        "opencl_convolution.py",
        "opencl_convolution.cl",
    }
    assert names(content_hashes(["taco_kernels.py"], KERNELS)) == {
        "taco_kernels.py",
        "taco_tensors.py",
    }


def test_a_file_that_is_named_must_exist(tmp_path):
    for call in (
        lambda: content_hashes(["absent.py"], tmp_path),
        lambda: table_hashes({"files": ["absent.py"]}, tmp_path),
        lambda: content_hashes(["."], tmp_path),
    ):
        with pytest.raises(EvaluatorError, match="cannot be read: it is not a file"):
            call()
