"""Flags as parameters, and the options that compilers print."""

import shutil
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from baco_like import Categorical, Integer, Space
from baco_like._tables import Table
from baco_like.evaluators import Flags
from baco_like.evaluators.command.compiler_options import (
    CompilerOptions,
    NumberOption,
    find_plain,
    parse_clang,
    parse_gcc,
    parse_llvm,
    probe_flags,
    read_options,
)
from baco_like.evaluators.command.flags import opposite
from baco_like.exceptions import EvaluatorError, RunFileError, SpaceError

GCC_O2 = """The following options control optimizations:
  -O<number>                  \t\t
  -faggressive-loop-optimizations \t[enabled]
  -falign-functions=          \t\t16
  -ffast-math                 \t\t
  -finline-functions          \t\t[enabled]
  -frtti                      \t\t[available in C++, D, ObjC++]
  -fstack-reuse=[all|named_vars|none] \tall
  -funroll-loops              \t\t[disabled]
  -fassociative-math          \t\t[disabled]
  -fvect-cost-model=[unlimited|dynamic|cheap|very-cheap] \tvery-cheap
  -fexcess-precision=[fast|standard|16] \t[default]
The following options control parameters:
  --param=align-threshold=<1,65536> \t\t100
  --param=asan-stack=<0,1>    \t\t1
  --param=logical-op-non-short-circuit=<0,1> \t-1
  --param=max-unroll-times=   \t\t8
  --param=ranger-logical-depth=<1,999> \t6
  --param=evrp-mode=          \t\tranger
"""
GCC_O3 = GCC_O2.replace("-funroll-loops              \t\t[disabled]", "-funroll-loops \t[enabled]")

LLVM_TYPES = """OPTIONS:
  --enable-unroll-and-jam                                       - Enable Unroll And Jam Pass
  --inline-threshold=<int>                                      - Control the amount of inlining (default = 225)
  --unroll-count=<uint>                                         - Use this unroll count
  --accel-tables=<value>                                        - Output dwarf accelerator tables.
    =Default                                                    -   Default for platform
    =Disable                                                    -   Disabled.
  --mcpu=<cpu-name>                                             - Target a specific cpu type
"""
LLVM_DEFAULTS = """  --enable-unroll-and-jam            = 0        (default: 0)
  --inline-threshold                 = 225      (default: 225)
  --unroll-count                     = 0        (default: 0)
  --accel-tables                     = Default  (default: Default)
  --mcpu                             = x86      (default: )
"""

CLANG = """OPTIONS:
  -fno-unroll-loops       Turn off loop unroller
  -funroll-loops          Turn on loop unroller
  -fslp-vectorize         Enable the superword-level parallelism vectorization passes
  -fno-plt                Use GOT indirection instead of PLT
  -fvisibility=<value>    Set the default symbol visibility
  -g                      Generate source-level debug information
"""


def flags(**settings):
    options = {"-O2": parse_gcc(GCC_O2), "-O3": parse_gcc(GCC_O3)}
    return Flags(**{"compiler": "gcc", "options": options, **settings})


def test_the_options_of_gcc():
    options = parse_gcc(GCC_O2)
    assert options.switches == {
        "-faggressive-loop-optimizations": True,
        "-finline-functions": True,
        "-funroll-loops": False,
        "-fassociative-math": False,
    }
    assert options.numbers == {
        "align-threshold": NumberOption(100, 1, 65536),
        "asan-stack": NumberOption(1, 0, 1),
        "logical-op-non-short-circuit": NumberOption(-1, 0, 1),
        "max-unroll-times": NumberOption(8),
        "ranger-logical-depth": NumberOption(6, 1, 999),
    }
    assert options.choices["-fvect-cost-model"][1] == "very-cheap"
    assert options.choices["-fexcess-precision"] == (("fast", "standard", "16"), None)


def test_the_options_of_llvm_and_clang():
    options = parse_llvm(LLVM_TYPES, LLVM_DEFAULTS)
    assert options.switches == {"-enable-unroll-and-jam": False}
    assert options.numbers == {
        "inline-threshold": NumberOption(225),
        "unroll-count": NumberOption(0, 0),
    }
    assert options.choices == {"-accel-tables": (("Default", "Disable"), "Default")}
    assert parse_clang(CLANG) == {"-funroll-loops": None, "-fslp-vectorize": None, "-fno-plt": None}
    tool = Flags(
        on_off=["-enable-unroll-and-jam"],
        params={"inline-threshold": [100]},
        options={"-O2": options},
    )
    config = {"enable_unroll_and_jam": True, "inline_threshold": 100}
    assert tool.words(config) == ["-O2", "-enable-unroll-and-jam", "-inline-threshold=100"]
    through_clang = parse_llvm(LLVM_TYPES, LLVM_DEFAULTS, "-mllvm")
    clang = Flags(params={"inline-threshold": [100]}, options={"-O2": through_clang})
    assert clang.words(config) == ["-O2", "-mllvm", "-inline-threshold=100"]


def test_values_around_a_default():
    assert NumberOption(8).values() == [1, 2, 4, 8, 16, 32, 64]
    assert NumberOption(90, 0, 100).values() == [11, 22, 45, 90]
    assert NumberOption(1, 0, 1).values() == [0, 1]
    assert NumberOption(0).values() == []


@pytest.mark.parametrize("level", ["-O2", "-O3"])
def test_the_default_configuration_is_the_compilers_own_choice(level):
    own = flags(
        on_off=["-funroll-loops", "-finline-functions", "-march=native"],
        params={"max-unroll-times": [4, 16], "-falign-loops": [16, 32]},
        level=level,
    )
    default = Space(own.parameters).default_config
    assert own.words(default) == [level]
    assert default["funroll_loops"] is (level == "-O3")
    assert own.parameters["max_unroll_times"].values == (4, 8, 16)


def test_words_say_what_differs_from_the_compilers_choice_at_the_level():
    own = flags(
        on_off=["-funroll-loops", "-finline-functions", "-march=native", "-fno-associative-math"],
        params={"max-unroll-times": [4], "-falign-loops": [16]},
        groups={"vectors": ["-fvect-cost-model=dynamic", "-fvect-cost-model=very-cheap", ""]},
        level=["-O2", "-O3"],
    )
    config = {
        "level": "-O2",
        "vectors": "",
        "funroll_loops": True,
        "finline_functions": False,
        "march_native": True,
        "fno_associative_math": False,
        "max_unroll_times": 4,
        "falign_loops": 16,
        "another": 1,
    }
    words = ["-funroll-loops", "-fno-inline-functions", "-march=native", "-fassociative-math"]
    numbers = ["--param=max-unroll-times=4", "-falign-loops=16"]
    assert own.words(config) == ["-O2", *words, *numbers]
    assert own.words({**config, "level": "-O3"}) == ["-O3", *words[1:], *numbers]
    assert own.text({**config, "vectors": "-flto 'a b'"}).startswith("-O2 -flto 'a b' -funroll")
    assert own.parameters["vectors"].default == "-fvect-cost-model=very-cheap"


def test_all_flags_of_a_compiler():
    own = flags(on_off="all", params="all", exclude=["ranger-logical-depth"])
    assert list(own.parameters) == [
        *("faggressive_loop_optimizations", "finline_functions", "funroll_loops"),
        *("align_threshold", "logical_op_non_short_circuit", "max_unroll_times"),
    ]
    assert own.words(Space(own.parameters).default_config or {}) == ["-O2"]


def test_unset_in_a_constraint_is_a_text_that_is_not_empty():
    texts = ("x or y == 1", "x == True or y == 1", "x <= 1 or y == 1")
    for text, holds in zip(texts, (True, False, False), strict=True):
        space = Space({"x": Categorical([False, True, "unset"]), "y": [1, 2]}, constraints=[text])
        assert (not space.explain({"x": "unset", "y": 2})) is holds, text


def test_without_a_compiler_a_switch_is_off_and_a_number_unset():
    own = Flags(on_off=["-fx"], params={"n": [4, 8], "m": Integer(1, 9)}, compiler="", level="-Os")
    assert own.words({"fx": False, "n": "unset", "m": 3}) == ["-Os", "--param=m=3"]
    assert own.words({"fx": True, "n": 8, "m": 3}) == ["-Os", "-fx", "--param=n=8", "--param=m=3"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"on_off": ["-fx", "-fno-x"]}, "-fx and -fno-x are the same switch"),
        ({"on_off": ["x"]}, "a flag is one word that begins with '-'"),
        ({"on_off": ["-a -b"]}, "one word"),
        ({"groups": {"g": []}}, "the group 'g' is empty"),
        ({"groups": {"g": ["O2"]}}, "a flag begins with '-'"),
        ({"params": {"max-unrol-times": [4]}}, "no parameter 'max-unrol-times'; did you mean"),
        ({"params": {"align-threshold": [0]}}, "allows 1 to 65536, not 0"),
        ({"params": {"max-unroll-times": {"low": 1}}}, "give low and high"),
        ({"params": {"max-unroll-times": {"low": 9, "high": 12}}}, "own value, 8, lies outside"),
        ({"params": {"max-unroll-times": 4}}, "a list of numbers, or low and high"),
        ({"params": {"max-unroll-times": ["4"]}}, "a list of numbers, or low and high"),
        ({"on_off": ["-fx"], "groups": {"fx": ["-fy"]}}, "two of them become the parameter 'fx'"),
        ({"level": []}, "give one level"),
        ({"on_off": "all", "options": None, "compiler": ""}, "needs a compiler"),
    ],
)
def test_wrong_flags_are_refused(settings, message):
    with pytest.raises(SpaceError, match=message):
        flags(**settings)


@given(st.from_regex(r"-[fmW](no-)?[a-m][a-z0-9-]{0,9}", fullmatch=True))
def test_the_opposite_of_the_opposite_is_the_flag(flag):
    other = opposite(flag)
    assert other != flag
    assert opposite(other) == flag


def test_flags_without_an_opposite():
    assert [opposite(flag) for flag in ("-march=native", "-O3", "-s", "--param=x=1")] == [None] * 4


def test_a_compiler_that_cannot_be_asked():
    with pytest.raises(EvaluatorError, match="cannot be asked for its defaults: No such file"):
        read_options("no-such-compiler")
    with pytest.raises(EvaluatorError, match="neither GCC, clang nor a tool of LLVM"):
        read_options("true")
    table = Table("flags", {"compiler": "", "onoff": []})
    with pytest.raises(RunFileError, match=r"\[flags\] has no key 'onoff'"):
        table.create(Flags)


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
def test_the_installed_gcc_answers():
    slow, fast = (read_options("gcc", level).switches for level in ("-O1", "-O3"))
    assert len(slow) > 100
    assert not slow["-ftree-vectorize"]
    assert fast["-fgcse-after-reload"]
    assert read_options("gcc").numbers["max-unroll-times"].default == 8


@pytest.mark.skipif(shutil.which("opt") is None, reason="needs LLVM's opt")
def test_the_installed_opt_answers():
    options = read_options("opt")
    assert options.numbers["inline-threshold"].default == 225
    assert "-enable-unroll-and-jam" in options.switches


EVERY = flags(
    on_off=["-funroll-loops", "-finline-functions", "-fno-associative-math", "-march=native"],
    params={"max-unroll-times": [4, 16], "-falign-loops": [16, 32]},
    groups={"model": ["", "-fvect-cost-model=dynamic"]},
    level=["-O2", "-O3"],
)
CONFIGS = st.fixed_dictionaries(
    {name: st.sampled_from(parameter.values) for name, parameter in EVERY.parameters.items()}
)


@given(CONFIGS, CONFIGS)
def test_different_configurations_have_different_command_lines(one, other):
    assert (EVERY.words(one) == EVERY.words(other)) == (one == other)
    assert all(word.startswith("-") for word in EVERY.words(one))


def test_clang_is_asked_for_its_switches_and_llvms_numbers(tmp_path):
    for name, text in (("types", LLVM_TYPES), ("defaults", LLVM_DEFAULTS), ("clang", CLANG)):
        (tmp_path / name).write_text(text)
    program = tmp_path / "clang"
    program.rename(tmp_path / "switches")
    program.write_text(
        f"""#!/bin/sh
cd {tmp_path}
case "$*" in
--version) echo "Debian clang version 14.0.6" ;;
--help-hidden) cat switches ;;
"-c -x c /dev/null -o /dev/null -O3 -mllvm --help-list-hidden") cat types ;;
"-c -x c /dev/null -o /dev/null -O3 -mllvm --print-all-options") cat defaults ;;
*-fno-slp-vectorize*-###*) echo '"clang" "-cc1"' ;;
*-fno-plt*-###*) echo '"clang" "-cc1" "-vectorize-slp" "-fno-plt"' ;;
*-###*) echo '"clang" "-cc1" "-vectorize-slp"' ;;
*) exit 1 ;;
esac
"""
    )
    program.chmod(0o755)
    own = Flags(
        on_off=["-fslp-vectorize", "-fno-plt"],
        params={"inline-threshold": [75]},
        level="-O3",
        compiler=str(program),
    )
    assert own.parameters["inline_threshold"].values == (75, 225)
    assert own.parameters["fslp_vectorize"].default is True
    config = {"fslp_vectorize": False, "fno_plt": False, "inline_threshold": 75}
    words = ["-O3", "-fno-slp-vectorize", "-mllvm", "-inline-threshold=75"]
    assert own.words(config) == words
    assert own.words({**config, "fno_plt": True, "inline_threshold": 225}) == [
        *words[:2],
        "-fno-plt",
    ]


NEEDS_GCC = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")


def states(*words):
    return dict(probe_flags("gcc", "", *words))


@NEEDS_GCC
@pytest.mark.parametrize(
    ("level", "flag", "part"),
    [
        ("-O3", "-ftree-vectorize", "-ftree-loop-vectorize"),
        ("-Ofast", "-ffast-math", "-fassociative-math"),
    ],
)
def test_an_umbrella_switch_turns_its_parts_off(level, flag, part):
    own = Flags(on_off=[flag], level=level, compiler="gcc")
    (name,) = own.parameters
    on, off = own.words({name: True}), own.words({name: False})
    assert own.parameters[name].default is True
    assert on == [level]
    assert off == [level, str(opposite(flag))]
    assert states(*on)[part] == "[enabled]"
    assert states(*off)[part] == "[disabled]"


@NEEDS_GCC
@pytest.mark.parametrize("loops", [False, True])
@pytest.mark.parametrize("straight", [False, True])
@pytest.mark.parametrize("umbrella", [False, True])
def test_the_parts_of_an_umbrella_keep_their_values(loops, straight, umbrella):
    own = Flags(
        on_off=["-ftree-loop-vectorize", "-ftree-slp-vectorize", "-ftree-vectorize"],
        level="-O3",
        compiler="gcc",
    )
    config = {
        "ftree_vectorize": umbrella,
        "ftree_loop_vectorize": loops,
        "ftree_slp_vectorize": straight,
    }
    result = states(*own.words(config))
    assert (result["-ftree-loop-vectorize"] == "[enabled]") is loops
    assert (result["-ftree-slp-vectorize"] == "[enabled]") is straight


@NEEDS_GCC
def test_a_group_leaves_the_tuned_switches_alone():
    own = Flags(on_off=["-fsigned-zeros"], groups={"model": ["", "-ffast-math"]}, compiler="gcc")
    words = own.words({"fsigned_zeros": True, "model": "-ffast-math"})
    assert words == ["-O2", "-ffast-math", "-fsigned-zeros"]
    assert own.words({"fsigned_zeros": True, "model": ""}) == ["-O2"]


@NEEDS_GCC
@pytest.mark.parametrize(
    "settings",
    [
        {"on_off": ["-fno-tree-terr"]},
        {"groups": {"g": ["", "-fno-tree-terr"]}},
        {"params": {"-falign-loopz": [16]}},
    ],
)
def test_a_flag_that_the_compiler_does_not_know_is_refused(settings):
    with pytest.raises(SpaceError, match=r"gcc refuses -f.*did you mean"):
        Flags(**settings, compiler="gcc")


@NEEDS_GCC
def test_a_flag_whose_opposite_is_refused_is_given_or_not():
    own = Flags(on_off=["-m64"], compiler="gcc")
    assert own.words({"m64": False}) == ["-O2"]
    assert own.words({"m64": True}) == ["-O2", "-m64"]


@NEEDS_GCC
def test_each_level_alone_is_a_configuration():
    own = Flags(
        on_off=["-ftree-vectorize", "-fgcse-after-reload"],
        params={"max-inline-insns-auto": [60], "max-inline-insns-single": {"low": 9, "high": 300}},
        groups={"allocator": ["-fira-algorithm=priority", "-fira-algorithm=CB"]},
        level=["-O2", "-O3"],
        compiler="gcc",
    )
    default = Space(own.parameters).default_config
    assert own.words(default) == ["-O2"]
    assert own.parameters["max_inline_insns_auto"].values == (15, 30, 60)
    fast = {
        "level": "-O3",
        "ftree_vectorize": True,
        "fgcse_after_reload": True,
        "max_inline_insns_auto": 30,
        "max_inline_insns_single": 200,
        "allocator": "-fira-algorithm=CB",
    }
    assert own.words(fast) == ["-O3"]
    with pytest.raises(SpaceError, match="own value, 200, lies outside"):
        Flags(
            params={"max-inline-insns-single": {"low": 9, "high": 100}},
            level=["-O2", "-O3"],
            compiler="gcc",
        )


class FakeCompiler:
    """Switches f0, f1, ... of which some set others, and some have no opposite; what is given explicitly wins."""

    def __init__(self, parts, alone=()):
        self.parts, self.alone, self.questions = parts, alone, 0

    def __call__(self, program, level, *flags):
        self.questions += 1
        given = {int(flag.removeprefix("-fno-").removeprefix("-f")): flag for flag in flags}
        for number, flag in given.items():
            if number in self.alone and flag.startswith("-fno-"):
                raise SpaceError(f"refuses {flag}")
        states = {part: flag for n, flag in given.items() for part in self.parts.get(n, ())}
        on = {n: not flag.startswith("-fno-") for n, flag in {**states, **given}.items()}
        return {f"-f{n}": str(state) for n, state in on.items()}


def plain_of(fake, count, monkeypatch):
    monkeypatch.setattr("baco_like.evaluators.command.compiler_options.probe_flags", fake)
    with ThreadPoolExecutor(1) as pool:
        return find_plain("cc", "-O2", {f"-f{n}": f"-fno-{n}" for n in range(count)}, pool)


@given(data=st.data(), count=st.integers(0, 30))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_plain_switches_are_those_that_set_no_others(data, count, monkeypatch):
    numbers = st.integers(0, max(count - 1, 0))
    parts = data.draw(st.dictionaries(numbers, st.sets(numbers, min_size=1, max_size=3)))
    alone = data.draw(st.sets(numbers, max_size=3))
    parts = {n: own - {n} for n, own in parts.items()}
    found = plain_of(FakeCompiler(parts, alone), count, monkeypatch)
    expected = {f"-f{n}" for n in range(count) if not parts.get(n) and n not in alone}
    assert found <= expected
    if not any(parts.values()):
        assert found == expected


def test_many_switches_need_few_questions(monkeypatch):
    fake = FakeCompiler({7: [8, 90], 40: [3], 111: [112]}, alone=[60])
    found = plain_of(fake, 170, monkeypatch)
    assert len(found) == 166
    assert fake.questions < 120  # two for each switch before


def test_numbers_that_are_unsafe_or_cannot_matter_are_left_out_of_all():
    left_out = [
        "graphite-allow-codegen-errors",
        "hash-table-verification-limit",
        "max-debug-marker-count",
        "max-vartrack-size",
        "ggc-min-expand",
        "max-gcse-memory",
        "ira-max-conflict-table-size",
        "asan-use-after-return",
        "hwasan-instrument-reads",
        "analyzer-max-recursion-depth",
        "tsan-distinguish-volatile",
        "cxx-max-namespaces-for-diagnostic-help",
        "min-pagesize",
        "use-canonical-types",
        "max-delay-slot-insn-search",
        "tracer-dynamic-coverage-feedback",
        "hot-bb-count-fraction",
        "profile-func-internal-id",
        "stack-clash-protection-guard-size",
        "tm-max-aggregate-size",
        "opt-bisect-limit",
        "print-lsr-output",
        "stress-regalloc",
        "pgo-warn-limit",
        "integer-share-limit",
        "destructive-interference-size",
    ]
    kept = [
        "max-unroll-times",
        "inline-unit-growth",
        "l1-cache-size",
        "modref-max-tests",
        "hot-bb-frequency-fraction",
        "vect-max-version-for-alias-checks",
        "max-cselib-memory-locations",
        "prefetch-latency",
        "tracer-dynamic-coverage",
        "partial-inlining-entry-probability",
        "unroll-count",
    ]
    numbers = {name: NumberOption(8) for name in (*left_out, *kept)}
    flags = Flags(params="all", compiler="", options={"-O2": CompilerOptions(numbers=numbers)})
    assert {name.replace("_", "-") for name in flags.parameters} == set(kept)
    named = Flags(params={left_out[0]: [8, 9]}, compiler="", options=flags.options)
    assert len(named.parameters) == 1
