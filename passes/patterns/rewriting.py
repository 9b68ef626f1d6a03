"""Declare rules, and make passes of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from tfjit.framework.cooperative_yield import yielding
from tfjit.framework.errors import InvalidArgumentError
from tfjit.passes.ir.dataflow_graph import DataflowGraph, Node
from tfjit.passes.ir.declined import Declined
from tfjit.passes.manager.pass_context import Pass, PassContext
from tfjit.passes.patterns.expressions import Op, as_value
from tfjit.passes.patterns.rewrite_rule import Rule

NodeRule = Callable[[DataflowGraph, PassContext, Node], "str | None"]
"""A rewrite of one node; returns the change's text or None."""


def rewrite(
    name: str,
    pattern: Op,
    replacement: object,
    *,
    when: Callable[..., object] | None = None,
    keeps_shape: bool = False,
) -> Rule:
    """Return the rule that replaces a pattern by an expression.

    replacement: an expression over the pattern's parts, a number, an array, or a function that
    returns one of these. when: a guard, called with the parts that its parameters name.
    keeps_shape: a tensor that replaces the root has the root's shape by the meaning of the ops;
    else the rule is refused where the shapes may differ, as after broadcasting.
    Raises InvalidArgumentError with the name of the rule where the pattern can match nothing or the
    replacement cannot fit.
    """
    from tfjit.passes.patterns.check import check_rule

    rule = _declared(name, pattern, replacement, when, keeps_shape)
    check_rule(rule)
    return rule


def rule(
    pattern: Op,
    *,
    name: str = "",
    when: Callable[..., object] | None = None,
    keeps_shape: bool = False,
) -> Callable[[Callable[..., object]], Rule]:
    """Return a decorator that makes a rule of a replacement function.

    The function's parameters are names of the pattern's parts; it returns an expression, or None
    where the rule does not apply. name: by default the function's. keeps_shape: as in `rewrite`.
    """

    def declare(function: Callable[..., object]) -> Rule:
        given = name or function.__name__
        return rewrite(given, pattern, function, when=when, keeps_shape=keeps_shape)

    return declare


def _declared(
    name: str, pattern: Op, replacement: object, when: Callable[..., object] | None, keeps: bool
) -> Rule:
    if not isinstance(name, str) or not name:
        raise InvalidArgumentError(None, None, f"a rule has a name, got {name!r}")
    try:
        if not callable(replacement):
            replacement = as_value(replacement)
        return Rule(name, pattern, replacement, when, keeps)
    except TypeError as error:
        raise InvalidArgumentError(None, None, f"rule '{name}': {error}") from None


def as_pass(name: str, rules: Iterable[Rule]) -> Pass:
    """Return a pass that applies rules to every node once, inputs first.

    Of the rules for a node, the first that rewrites it counts. name: of the pass, in reports and
    for TFJIT_DISABLE.
    """
    listed = tuple(rules)
    if not listed:
        raise InvalidArgumentError(None, None, f"pass '{name}' has no rules")
    for one in listed:
        if not isinstance(one, Rule):
            raise InvalidArgumentError(None, None, f"pass '{name}': {one!r} is no rule")
        if sum(other.name == one.name for other in listed) > 1:
            raise InvalidArgumentError(None, None, f"pass '{name}' has two rules '{one.name}'")
    table = by_root_type(listed)

    def rewriting_pass(graph: DataflowGraph, ctx: PassContext) -> None:
        apply_rules(graph, ctx, table)

    rewriting_pass.__name__ = name
    rewriting_pass.__doc__ = f"Apply {', '.join(one.name for one in listed)}."
    return rewriting_pass


def by_root_type(rules: Iterable[Rule]) -> dict[str, tuple[Rule, ...]]:
    """Return the rules by the op types of their roots, in order."""
    table: dict[str, tuple[Rule, ...]] = {}
    for one in rules:
        for op_type in one.root_types:
            table[op_type] = (*table.get(op_type, ()), one)
    return table


def apply_rules(
    graph: DataflowGraph, ctx: PassContext, table: Mapping[str, Sequence[NodeRule]]
) -> None:
    """Apply rules to every node once, inputs first.

    table: op type -> its rules, of which the first that rewrites the node counts. Chains collapse
    in one walk, since inputs come first. Each change and each refusal is logged.
    """
    if table.keys().isdisjoint(graph.op_types):
        return
    for name in yielding(graph.topological_order()):
        if name not in graph:
            continue
        node = graph.node(name)
        for one in table.get(node.op, ()):
            if not ctx.may_rewrite():
                return
            if isinstance(one, Rule):
                label = rule_name = one.name
            else:
                label, rule_name = node.op, one.__name__.strip("_")
            changes = graph.changes
            try:
                done = one(graph, ctx, node)
            except Declined as reason:
                ctx.log(name, f"{label} stays: {reason}")
                continue
            if done:
                ctx.rewrote(name, f"{label}: {done}", rule_name)
                break
            if graph.changes != changes:
                ctx.rewrote(name, f"{label}: changed in part", rule_name)
