import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baco_like.evaluators.command.template import Template, to_text, variable_names
from baco_like.exceptions import EvaluatorError, RunFileError


def parse(text):
    return Template.parse(text, ["tile", "order", "workdir"], "[evaluator] run")


def test_words_are_split_before_they_are_filled():
    template = parse("cc -DT={tile} 'a b' {workdir}/k")
    filled = template.fill({"tile": "8; rm -rf / $(id) 'x", "workdir": "/tmp/w d", "order": ""})
    assert filled == ["cc", "-DT=8; rm -rf / $(id) 'x", "a b", "/tmp/w d/k"]


@given(st.text(st.characters(blacklist_characters="\0", codec="utf-8"), max_size=50))
def test_a_value_stays_in_its_word_whatever_it_is(value):
    filled = parse("prog pre{tile}post end").fill({"tile": value})
    assert filled == ["prog", f"pre{value}post", "end"]


def test_a_value_that_looks_like_a_placeholder_is_not_filled_again():
    assert parse("x {tile} {order}").fill({"tile": "{order}", "order": "{{"}) == [
        "x",
        "{order}",
        "{{",
    ]


def test_a_hostile_value_reaches_the_program_as_it_is():
    template = parse(f"{sys.executable} -I -c 'import sys; print(ascii(sys.argv[1]))' {{tile}}")
    hostile = "$(touch /tmp/owned); `id` && 'x' \"y\" | > * \\ \n"
    done = subprocess.run(
        template.fill({"tile": hostile}), capture_output=True, text=True, check=True
    )
    assert done.stdout == ascii(hostile) + "\n"


def test_doubled_braces_are_braces():
    assert parse("awk '{{print}}' {{x}}").fill({}) == ["awk", "{print}", "{x}"]


def test_empty_words_stay():
    assert parse("x '' y").fill({}) == ["x", "", "y"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cc {tyle}", r"\[evaluator\] run: unknown placeholder \{tyle\}; did you mean 'tile'"),
        ("cc {tile.real}", "unknown placeholder"),
        ("cc {tile[0]}", "unknown placeholder"),
        ("cc {}", "unknown placeholder"),
        ("cc {0}", "unknown placeholder"),
        ("cc {tile!r}", "a name alone"),
        ("cc {tile:>5}", "a name alone"),
        ("cc {tile:{order}}", "a brace is written"),
        ("cc {tile", "a brace is written"),
        ("cc tile}", "a brace is written"),
        ("cc 'x", "No closing quotation"),
        ("   ", "the command is empty"),
    ],
)
def test_wrong_texts_are_told(text, message):
    with pytest.raises(RunFileError, match=message) as caught:
        parse(text)
    assert "\n" not in str(caught.value)


def test_program_and_placeholders():
    assert parse("cc -o {workdir}/k {tile}").program == "cc"
    assert parse("{workdir}/k {order}").program is None
    assert parse("cc -o {workdir}/k {tile}").placeholders == {"workdir", "tile"}


def test_text_of_values():
    values = [3, 0.1, 1e-300, True, False, "-O3", ("i", "j", "k"), (2, 0, 1), 2**53 + 1]
    texts = ["3", "0.1", "1e-300", "1", "0", "-O3", "i,j,k", "2,0,1", "9007199254740993"]
    assert [to_text(value) for value in values] == texts


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_floats_come_back_the_same(value):
    assert float(to_text(value)) == value


def test_nul_is_refused():
    with pytest.raises(EvaluatorError, match="NUL"):
        to_text("a\0b")


def test_variable_names():
    assert variable_names(["tile", "block-x", "Größe"]) == {
        "tile": "BACO_TILE",
        "block-x": "BACO_BLOCK_X",
        "Größe": "BACO_GR__E",
    }
    with pytest.raises(RunFileError, match="both become BACO_N; rename one"):
        variable_names(["n", "N"])


def test_an_optional_flag_that_is_not_given_is_no_word():
    template = Template.parse("cc {flag?} -o 'a b' {flag}x '' {flag}", ["flag"], "build")
    assert template.placeholders == {"flag"}
    assert template.fill({"flag": ""}) == ["cc", "-o", "a b", "x", "", ""]
    assert template.fill({"flag": "-g"}) == ["cc", "-g", "-o", "a b", "-gx", "", "-g"]
    with pytest.raises(RunFileError, match=r"placeholder \{falg\}; did you mean 'flag'"):
        Template.parse("cc {falg?}", ["flag"], "build")


def test_a_word_is_left_out_if_an_optional_part_of_it_is_empty():
    names, orders = ["p0", "p1", "order"], {"order": 2}
    template = Template.parse("cc -march={p0?} {p0}{p1?} x{order:-?} {p1?}", names, "build", orders)
    filled = template.fill({"p0": "native", "p1": "x", "order": ("a", "b")})
    assert filled == ["cc", "-march=native", "nativex", "xa-b", "x"]
    assert template.fill({"p0": "", "p1": "", "order": ("", "b")}) == ["cc", "x-b"]
    assert template.fill({"p0": "", "p1": "x", "order": ("", "")}) == ["cc", "x", "x-", "x"]
    words = Template.parse("{flags?} -D={flags?}", ["flags"], "build")
    assert words.fill({"flags": ["-a", "b c"]}) == ["-a", "b c", "-D=-a 'b c'"]
    assert words.fill({"flags": []}) == []


@pytest.mark.parametrize(
    "text",
    [
        "cc x.c 2>&1 | tee log",
        "cd src && make",
        "run > log",
        "run >log",
        "run 2>/dev/null",
        "run|tee log",
        "run; ls",
        "run $HOME",
        "run $(nproc)",
        "run `nproc`",
    ],
)
def test_what_only_a_shell_understands_is_refused(text):
    with pytest.raises(RunFileError, match=r"needs a shell.*sh -c"):
        Template.parse(text, [], "[evaluator] run")
    assert Template.parse(f"sh -c '{text}'", [], "run").fill({})[2] == text
    assert Template.parse("awk -F '|' x", [], "run").fill({}) == ["awk", "-F", "|", "x"]
    assert Template.parse('x "a > $b" c\\;d', [], "run").fill({}) == ["x", "a > $b", "c;d"]


def test_an_order_has_elements_and_a_separator_of_its_own():
    def fill(text):
        template = Template.parse(text, ["order", "tile"], "run", {"order": 3})
        assert template.placeholders <= {"order", "tile"}
        return template.fill({"order": ("i", "j", "k"), "tile": "8"})

    assert fill("k {order} {order:-} {order:} '{order: }' {order:::}") == [
        *("k", "i,j,k", "i-j-k", "ijk", "i j k", "i::j::k"),
    ]
    assert fill("k -o{order[2]}{order[0]} {order[1]}") == ["k", "-oki", "j"]
    assert Template.parse("k 'a;b' {order:;}", ["order"], "run", {"order": 2}).words
    with pytest.raises(
        RunFileError, match=r"\{order\[3\]\}: every value of 'order' has 3 elements"
    ):
        fill("k {order[3]}")
    with pytest.raises(RunFileError, match="unknown placeholder"):
        fill("k {tile[0]}")


def test_a_list_of_words_becomes_words():
    template = Template.parse("cc {flags} -o x{flags}", ["flags"], "build")
    assert template.fill({"flags": ["-O2", "-f x"]}) == ["cc", "-O2", "-f x", "-o", "x-O2 '-f x'"]
    assert template.fill({"flags": []}) == ["cc", "-o", "x"]
