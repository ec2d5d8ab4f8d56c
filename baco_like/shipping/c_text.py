"""Numbers, strings and names as C source. Values come from journals of other people, so everything is escaped."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

from baco_like.exceptions import RunFileError

_KEYWORD = re.compile(
    r"NULL|alignas|alignof|and|and_eq|asm|auto|bitand|bitor|bool|break|case|catch|"
    r"char|class|compl|const|const_cast|constexpr|continue|decltype|default|delete|"
    r"do|double|dynamic_cast|else|enum|errno|explicit|export|extern|false|float|"
    r"for|friend|goto|if|inline|int|linux|long|mutable|namespace|new|noexcept|not|"
    r"not_eq|nullptr|operator|or|or_eq|private|protected|public|register|"
    r"reinterpret_cast|restrict|return|short|signed|sizeof|static|static_assert|"
    r"static_cast|struct|switch|template|this|thread_local|throw|true|try|typedef|"
    r"typeid|typename|typeof|union|unix|unsigned|using|virtual|void|volatile|"
    r"wchar_t|while|xor|xor_eq"
)
"""Keywords of C and C++, and names that common headers define as macros."""

_INT64 = 2**63


def c_string(text: str) -> str:
    """Return a string literal in ASCII.

    Bytes outside printable ASCII, and question marks (trigraphs), are octal escapes of three digits, which end there
    whatever follows.

    Raises:
        RunFileError: C cannot hold the text: it has a null character, or is not valid Unicode.
    """
    try:
        data = text.encode()
    except UnicodeEncodeError:
        raise RunFileError(
            f"the text {text!r:.80} is not valid Unicode; C cannot hold it"
        ) from None
    if 0 in data:
        raise RunFileError(f"the text {text!r:.80} has a null character, which ends a string of C")
    return '"' + "".join(chr(b) if _is_plain(b) else f"\\{b:03o}" for b in data) + '"'


def _is_plain(byte: int) -> bool:
    return 32 <= byte < 127 and byte not in b'"\\?'


def c_number(value: float) -> str:
    """Return a double.

    Raises:
        RunFileError: It is not finite.
    """
    if not math.isfinite(value):
        raise RunFileError(f"the number {value} has no form in C source")
    text = repr(float(value))
    return f"({text})" if value < 0 else text


def c_integer(value: int, *, is_unsigned: bool = False) -> str:
    """Return an integer of at most 64 bits.

    Args:
        value: The integer.
        is_unsigned: Whether its type is ``unsigned long long`` instead of ``long long``.

    Raises:
        RunFileError: It is larger.
    """
    low, high = (0, 2 * _INT64) if is_unsigned else (-_INT64, _INT64)
    if not low <= value < high:
        raise RunFileError(
            f"the integer {value} does not fit the 64 bits of C's long long; ship another format"
        )
    if value == -_INT64:
        return f"({value + 1}LL - 1)"  # C reads the sign after the digits, which alone do not fit
    suffix = "" if abs(value) < 2**31 else "ULL" if value >= _INT64 else "LL"
    return f"({value}{suffix})" if value < 0 else f"{value}{suffix}"


def c_names(names: Iterable[str], taken: Iterable[str] = ()) -> list[str]:
    """Return an identifier for each name: ASCII, no keyword, different even in capitals, not ``default_...``.

    Args:
        names: The names.
        taken: Identifiers that are in use.
    """
    made: list[str] = []
    used = {word.upper() for word in taken}
    for name in names:
        word = re.sub(r"[^A-Za-z0-9_]", "_", name) or "_"
        is_reserved = word[0] == "_" or word.upper().startswith("DEFAULT_")
        if word[0].isdigit() or is_reserved or _KEYWORD.fullmatch(word):
            word = f"p_{word.lstrip('_')}"
        free, number = word, 2
        while free.upper() in used:
            free, number = f"{word}_{number}", number + 1
        used.add(free.upper())
        made.append(free)
    return made


def check_prefix(name: str) -> str:
    """Return a name that begins identifiers of C.

    Raises:
        RunFileError: The name is not an identifier.
    """
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name) or _KEYWORD.fullmatch(name):
        raise RunFileError(
            f"name = {name!r:.80}: expected a letter, then letters, digits and underscores; give another one by --name"
        )
    return name
