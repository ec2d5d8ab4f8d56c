"""The text of a sequence of passes: nested by level, joined by manager, and understood by LLVM's opt."""

import shutil
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baco_like.evaluators import Passes
from baco_like.evaluators.command.passes import LEVELS, VERSIONS, find_opt, tool_beside
from baco_like.exceptions import EvaluatorError, SpaceError

has_opt = any(shutil.which(f"opt-{v}") for v in VERSIONS) or shutil.which("opt")
needs_opt = pytest.mark.skipif(not has_opt, reason="needs opt of LLVM 14 to 21")

MANAGED = ["sroa", "gvn", "licm", "indvars", "inline", "globalopt", "function(dse)", "loop(licm)"]


def accepts(opt, text):
    command = [opt, f"-passes={text}", "-disable-output", "/dev/null"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def test_passes_stay_as_written_without_opt_and_equal_managers_are_joined():
    tile = "func.func(affine-loop-tile{tile-size=4, n=2})"
    passes = Passes(["func.func(canonicalize,cse)", tile, "inline"])
    assert passes.text(passes.elements) == (
        "func.func(canonicalize,cse,affine-loop-tile{tile-size=4, n=2}),inline"
    )
    assert passes.text(["inline", tile, "inline"]) == f"inline,{tile},inline"
    assert passes.text([]) == ""
    repeated = ["cgscc(devirt<4>(inline))"] * 2  # each repeats its own passes
    assert Passes(repeated[:1]).text(repeated) == "cgscc(devirt<4>(inline),devirt<4>(inline))"


def test_the_words_of_each_pass():
    passes = Passes(["cse", "canonicalize"], form="--{pass}")
    assert passes.words({"passes": ("cse", "cse")}) == ["--cse", "--cse"]
    assert passes.words({}) == []
    assert Passes(["cse"]).words({"passes": ("cse", "cse")}) == "cse,cse"


@pytest.mark.parametrize("element", ["f(a", "a)", "", "f(a))(b", "a<b"])
def test_a_bracket_without_partner_is_refused(element):
    with pytest.raises(SpaceError, match="has no partner"):
        Passes([element])


@needs_opt
def test_each_level_of_llvm_gets_its_managers():
    passes = Passes(["globalopt", "inline", "sroa", "indvars", "licm"], opt=find_opt())
    text = passes.text(["sroa", "indvars", "licm", "inline", "function(sroa)", "globalopt"])
    assert (
        text
        == "function(sroa,loop(indvars),loop-mssa(licm)),cgscc(inline),function(sroa),globalopt"
    )
    assert passes.default == ("default<Oz>",)
    assert Passes(["sroa"], opt=find_opt(), start=[]).default == ()


@needs_opt
def test_all_passes_are_listed_without_those_that_only_look_or_instrument():
    passes = Passes("all", exclude=["sroa"])
    assert {"gvn", "licm", "inline", "globalopt", "early-cse<memssa>", "default<Oz>"} <= set(
        passes.elements
    )
    bad = ("print", "verify", "sroa", "asan", "instrprof", "no-op", "invalidate", "strip", "pgo")
    assert [e for e in passes.elements if e.startswith(bad)] == []
    assert accepts(passes.opt, passes.text(passes.elements))


@needs_opt
@pytest.mark.parametrize("level", LEVELS)
def test_the_passes_of_a_level(level):
    passes = Passes(level)
    assert passes.default == (f"default<{level}>",)
    assert ("gvn" in passes.elements) == (level in ("O2", "O3", "Os", "Oz"))
    assert accepts(passes.opt, passes.text(passes.elements))


@needs_opt
@settings(max_examples=15)
@given(st.lists(st.sampled_from(MANAGED), min_size=1, max_size=8))
def test_opt_accepts_every_sequence(sequence):
    passes = Passes(sorted(set(sequence)), opt=find_opt(), start=[])
    text = passes.text(sequence)
    assert accepts(passes.opt, text)
    # The same passes in the same order, whatever the managers.
    names = [name for word in text.split("(") for name in word.replace(")", "").split(",")]
    managers = ("cgscc", "function", "loop", "loop-mssa")
    plain = [e.partition("(")[2].rstrip(")") or e for e in sequence]
    assert [name for name in names if name not in managers] == plain


@needs_opt
def test_an_unknown_pass_is_named_with_a_hint():
    with pytest.raises(SpaceError, match=r"'gvnn'.*unknown.*did you mean 'gvn'"):
        Passes(["sroa", "gvnn"], opt=find_opt())
    with pytest.raises(SpaceError, match="O9"):
        Passes("O9")


def test_another_program_than_opt_is_refused():
    with pytest.raises(EvaluatorError, match="it lists no passes"):
        Passes(["gvn"], opt="true")
    with pytest.raises(EvaluatorError, match="cannot be asked"):
        Passes(["gvn"], opt="/missing/opt")


def test_tools_of_the_same_version():
    assert tool_beside("opt-17", "llc") == "llc-17"
    assert tool_beside("/usr/lib/llvm-14/bin/opt", "clang") == "/usr/lib/llvm-14/bin/clang"
