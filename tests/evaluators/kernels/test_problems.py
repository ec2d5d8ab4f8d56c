"""Problem files: where they are searched, how they are imported, and how configurations are completed."""

import importlib.util
import re

import pytest
from kernel_checks import KERNELS, load

from baco_like.evaluators import (
    HalideSettings,
    OpenCLSettings,
    halide_evaluator,
    load_problem,
    opencl_evaluator,
)
from baco_like.evaluators.kernels import complete_config
from baco_like.evaluators.kernels.arguments import draw_arguments
from baco_like.evaluators.kernels.problems import (
    completion,
    draw_three,
    find_problem,
    inspect_source,
)
from baco_like.exceptions import EvaluatorError, MissingExtra, RunFileError
from baco_like.spaces.space import Space

FILE = """
import numpy as np

FACTOR = 2

def inputs(size, rng):
    return (rng.uniform(size=(size, 3)).T,)

def expected(a):
    return np.asfortranarray(FACTOR * a)
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "mine.py").write_text(FILE)
    return tmp_path


def test_a_file_is_found_from_the_folder_and_its_arrays_are_contiguous(folder):
    path = find_problem("mine.py", folder)
    assert path == (folder / "mine.py").resolve()
    module = load_problem(path)
    input_, output = draw_arguments(module, 4, 1, {})
    array, expected = input_.start, output.expected.array
    assert module.__name__.startswith("mine_")
    assert array.flags.c_contiguous
    assert expected.flags.c_contiguous
    assert (expected == 2 * array).all()
    assert (draw_arguments(module, 4, 1, {})[0].start == array).all()


def test_constants_of_a_file_can_be_changed(folder):
    path = find_problem("mine.py", folder)
    input_, output = draw_arguments(load_problem(path, {"FACTOR": 3}), 4, 1, {})
    assert (output.expected.array == 3 * input_.start).all()
    with pytest.raises(EvaluatorError, match="no constant 'FACTR'; did you mean 'FACTOR'"):
        load_problem(path, {"FACTR": 3})


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("gemm", RunFileError, "expected a Python file .* examples/kernels"),
        ("mein.py", EvaluatorError, "there is no file .* did you mean 'mine.py'"),
    ],
)
def test_wrong_names_are_reported(folder, name, error, message):
    with pytest.raises(error, match=message):
        find_problem(name, folder)


def test_a_file_without_domains_is_not_imported_here(folder):
    (folder / "mine.py").write_text("raise RuntimeError('imported')")
    path = find_problem("mine.py", folder)
    assert completion(path, {}, {})({"any": 1}) == {"any": 1}


def test_parameters_that_a_space_leaves_out_get_their_defaults():
    space = Space({"vec": [1, 8]})
    complete = completion(KERNELS / "halide_blur.py", {}, space.parameters)
    config = complete({"vec": 8})
    assert (config["vec"], config["tx"], config["compute"]) == (8, 8, "inline")
    with pytest.raises(EvaluatorError, match="no parameter 'vek'; did you mean 'vec'"):
        complete({"vek": 8})


@pytest.mark.parametrize(
    ("make", "settings", "extra"),
    [
        (halide_evaluator, HalideSettings, "halide"),
        (opencl_evaluator, OpenCLSettings, "opencl"),
    ],
)
def test_a_missing_package_is_reported_with_its_extra(monkeypatch, make, settings, extra):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=rf"baco-like\[{extra}\]"):
        make(Space({"vec": [1, 8]}), settings("mine.py", 8))


# ---- The files of examples/kernels ----


FILES = [
    file.stem
    for file in sorted(KERNELS.glob("*.py"))
    if re.search(r"^def space", file.read_text(), re.M) and not file.stem.startswith("taco")
]
LEFT_OUT = {"cuda_gemm": {"KWG", "KWI", "STRM", "STRN"}}
OWN_DEFAULTS = {"halide_matmul_hidden"}
"""Its space has tiles of 4 or more, but the default of a tile that a space leaves out is 1."""


def test_all_files_are_here():
    assert len(FILES) == 9


@pytest.mark.parametrize("name", FILES)
def test_spaces_have_allowed_values(name):
    problem = load(name)
    space, domains = problem.space(128), problem.domains()
    left_out = LEFT_OUT.get(name, set())
    assert set(domains) - set(space.parameters) == left_out
    assert space.contains(space.default_config)
    if name not in OWN_DEFAULTS:
        assert complete_config(name, domains, {}).items() >= space.default_config.items()
    for config in space.sample(50, seed=2):
        full = complete_config(name, domains, config)
        assert full.items() >= config.items()
        assert set(full) - set(config) == left_out


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "def expected",
            "def expect",
            "mine.py has no 'expected', of the names .* did you mean 'expect'",
        ),
        ("FACTOR = 2", "FACTOR = ", "mine.py, line 4: SyntaxError: invalid syntax"),
        (
            "import numpy as np",
            "import numpy as np, nothing_here",
            "mine.py, line 2, in <module>: ModuleNotFoundError",
        ),
        (
            "(size, 3)).T",
            "(size, 3)).astype('flaot')",
            "line 7, in inputs: TypeError: data type 'flaot'",
        ),
        (
            "FACTOR * a",
            "FACTORS * a",
            "line 10, in expected: NameError: name 'FACTORS' is not defined",
        ),
        (
            "FACTOR = 2",
            "FACTOR = open('/none/my.cl')",
            r"No such file .* write Path\(__file__\).with_name\('my.cl'\)",
        ),
    ],
)
def test_mistakes_in_a_file_are_short_errors(folder, old, new, message):
    path = folder / "mine.py"
    assert old in FILE
    path.write_text(FILE.replace(old, new))

    def draw():
        problem = load_problem(path, needed=("inputs", "expected"))
        return draw_three(problem, {"size": 2, "seed": 0, "tolerances": {}})

    with pytest.raises(EvaluatorError, match=message) as caught:
        draw()
    assert "\n" not in str(caught.value)


def test_pointers_to_constant_elements_are_found_in_a_source(tmp_path):
    def found(source, kernel):
        return inspect_source(tmp_path, source, kernel, [])[0]

    source = """
    // void kernel(const float *a, const float *b) {
    static void other(const int *x) { kernel(x, 1); }
    void kernel(float const *restrict a, float *const b, const float c[4], const int d, /* const */ float *e) { }
    """
    assert found(source, "kernel") == [0, 2]
    two = (
        "#if X\nvoid k(const int *a, const int *b) {\n#else\nvoid k(int *a, const int *b) {\n#endif"
    )
    assert found(two, "k") == [1]
    assert found("SIGNATURE { }", "kernel") == []


def test_macros_that_do_not_occur_in_a_source_get_a_note(folder):
    path = folder / "mine.py"
    path.write_text(
        f"{FILE}\nSOURCE = '#include \"mine.h\"'\ndef launch(config, size):\n    return config['block'],\n"
    )
    (folder / "mine.h").write_text("#if TYLE > 2 || UNROLL\n#endif\n")
    text = '#include "mine.h"\nint n = WIDTH;'
    for macros, reads, unused in (
        (["UNROLL", "WIDTH", "block"], True, None),
        (["block"], False, "block"),
        (["TILE", "WIDT", "WIDTH", "block"], True, "TILE, WIDT"),
    ):
        _, notes = inspect_source(path, text, "kernel", macros, reads=reads)
        assert set(notes) == ({"macro"} if unused else set())
        assert unused is None or f"the macro {unused} does not occur" in notes["macro"]
