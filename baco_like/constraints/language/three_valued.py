"""Conditions that read inactive parameters: true, false or unknown, in the three-valued logic of Kleene.

A comparison that contains an inactive parameter is unknown. ``and``, ``or``, ``not`` and ``if`` of unknown parts are
known where every truth of these parts gives the same result (the strong logic of Kleene 1952, "Introduction to
metamathematics", section 64): ``c == 'x' and p == 'a'`` is false where ``c`` is not 'x', also if ``p`` is inactive.

Two conditions of ordinary logic express this: one that holds where the original is true, one where it is false.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from baco_like.constraints.language import tree
from baco_like.constraints.language.tree import Node

_DUAL = {"and": "or", "or": "and", "&": "|", "|": "&"}


def where_known(node: Node, active: Mapping[str, Node], truth: bool = True) -> Node:
    """Return a condition that holds where another one is known to be true, or to be false.

    It computes no comparison with an inactive parameter, and skips the parts that Python's ``and``, ``or`` and ``if``
    skip.

    Args:
        node: The other condition.
        active: For each parameter that may be inactive, a condition that tells where it is active.
        truth: True or false.
    """
    reads = [active[name] for name in tree.names(node) if name in active]
    own = node if truth else _negate(node)
    if not reads:
        return own
    match node:
        case tree.Operation(operator="not", parts=(part,)):
            return where_known(part, active, not truth)
        case tree.Operation(operator=word, parts=parts) if word in _DUAL and (
            word in ("and", "or") or tree.is_condition(node)
        ):
            return _join(
                word if truth else _DUAL[word], [where_known(p, active, truth) for p in parts]
            )
        case tree.Operation(operator="if", parts=parts):
            return _choose(parts, active, truth)
        case tree.Comparison(operators=(_, _, *_)):
            steps = [where_known(step, active, truth) for step in tree.chain_steps(node)]
            return _join("and" if truth else "or", steps)
    return _join("and", [*reads, own])


def _negate(node: Node) -> Node:
    if isinstance(node, tree.Literal):
        return tree.Literal(not node.value)
    return tree.Operation("not", (node,))


def _choose(parts: tuple[Node, ...], active: Mapping[str, Node], truth: bool) -> Node:
    """Return where ``body if test else otherwise`` is known to be true, or to be false."""
    body, otherwise = (where_known(part, active, truth) for part in (parts[0], parts[2]))
    yes, no = (where_known(parts[1], active, known) for known in (True, False))
    if active.keys() & set(tree.names(parts[1])):  # where the test is unknown, both must agree
        no = _join("or", [no, body])
    return _join("or", [_join("and", [yes, body]), _join("and", [no, otherwise])])


def _join(word: str, parts: Iterable[Node]) -> Node:
    """Return the parts joined by ``and or & |``, without constants that change nothing."""
    stop = word in ("or", "|")
    kept: list[Node] = []
    for part in parts:
        if not isinstance(part, tree.Literal):
            kept.append(part)
        elif bool(part.value) is stop:  # it decides: later parts are not reached
            kept.append(tree.Literal(stop))
            break
    if not kept:
        return tree.Literal(not stop)
    return kept[0] if len(kept) == 1 else tree.Operation(word, tuple(kept))
