"""Inline the calls of a text's small functions.

The random kernels call functions of the same text: the rounds of Philox, the draws. The front end
translates no calls of jitted functions, and Numba's pipeline takes ten times as long. So a call is
inlined in the syntax tree where the function is declared with `forceinline` and has one `return`,
at the end. Other calls stay.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Collection, Mapping, Sequence
from itertools import count

from numba.core.dispatcher import Dispatcher


class CallInlining:
    """Inline calls of the functions of one text."""

    def __init__(
        self, functions: Mapping[str, ast.FunctionDef], names: Mapping[str, object]
    ) -> None:
        """Find the functions that can be inlined.

        functions: of the text. names: the text's global names.
        """
        self._functions = {
            name: node
            for name, node in functions.items()
            if _is_forced(names.get(name)) and _has_plain_form(node)
        }
        self._numbers = count()

    def expanded(self, function: ast.FunctionDef) -> ast.FunctionDef:
        """Return a function with calls inlined, or the function itself."""
        if not self._functions:
            return function
        found = copy.deepcopy(function)
        found.body = self._block(found.body, ())
        return ast.fix_missing_locations(found)

    def _block(self, statements: Sequence[ast.stmt], within: Collection[str]) -> list[ast.stmt]:
        """Return the statements with calls inlined.

        Statements of an inlined function come before the statement that calls the function.
        within: the functions that the statements belong to.
        """
        found: list[ast.stmt] = []
        for statement in statements:
            for name in ("body", "orelse"):
                if nested := getattr(statement, name, None):
                    setattr(statement, name, self._block(nested, within))
            for name in ("value", "test", "iter"):
                node = getattr(statement, name, None)
                # the test of a `while` runs in each iteration
                if isinstance(node, ast.expr) and not isinstance(statement, ast.While):
                    # a tuple may stay one where the statement unpacks it
                    whole = isinstance(statement, (ast.Assign, ast.Return))
                    setattr(statement, name, self._expression(node, found, within, whole))
            found.append(statement)
        return found

    def _expression(
        self, node: ast.expr, before: list[ast.stmt], within: Collection[str], whole: bool = False
    ) -> ast.expr:
        """Return the expression without the calls that can be inlined.

        before: gets the statements that compute the results of the calls.
        whole: whether the call may have a tuple as its result.
        """
        if isinstance(node, (ast.IfExp, ast.BoolOp)):
            return node  # an operand may not run
        for name, value in ast.iter_fields(node):
            if isinstance(value, ast.expr):
                setattr(node, name, self._expression(value, before, within))
            elif isinstance(value, list):
                value[:] = [
                    self._expression(one, before, within) if isinstance(one, ast.expr) else one
                    for one in value
                ]
        called = self._called(node, within)
        if called is None:
            return node
        assert isinstance(node, ast.Call)
        *body, last = copy.deepcopy(called.body)
        assert isinstance(last, ast.Return) and last.value is not None
        if isinstance(last.value, ast.Tuple) and not whole:
            return node
        parameters = [argument.arg for argument in called.args.args]
        prefix = f"{called.name}_{next(self._numbers)}_"
        renaming = _Renaming(_local_names(called), prefix)
        before += [
            ast.Assign([ast.Name(prefix + parameter, ast.Store())], argument)
            for parameter, argument in zip(parameters, node.args, strict=True)
        ]
        before += self._block([renaming.visit(one) for one in body], {*within, called.name})
        result = renaming.visit(last.value)
        result = self._expression(result, before, {*within, called.name}, whole)
        if whole:
            return result
        before.append(ast.Assign([ast.Name(f"{prefix}result", ast.Store())], result))
        return ast.Name(f"{prefix}result", ast.Load())

    def _called(self, node: ast.expr, within: Collection[str]) -> ast.FunctionDef | None:
        """Return the function of a call that can be inlined."""
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.keywords:
            return None
        found = self._functions.get(node.func.id)
        if found is None or found.name in within or len(node.args) != len(found.args.args):
            return None
        return found


class _Renaming(ast.NodeTransformer):
    """Put a prefix before names."""

    def __init__(self, names: Collection[str], prefix: str) -> None:
        self._names, self._prefix = names, prefix

    def visit_Name(self, node: ast.Name) -> ast.Name:
        """Rename one name."""
        if node.id in self._names:
            node.id = self._prefix + node.id
        return node


def _is_forced(function: object) -> bool:
    """Return whether a global is a jitted function that its callers inline."""
    return isinstance(function, Dispatcher) and bool(function.targetoptions.get("forceinline"))


def _has_plain_form(node: ast.FunctionDef) -> bool:
    """Return whether a function has plain arguments and one final return."""
    arguments = node.args
    others = [*arguments.posonlyargs, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    returns = [inner for inner in ast.walk(node) if isinstance(inner, ast.Return)]
    return (
        not any(others)
        and not arguments.defaults
        and returns == node.body[-1:]
        and returns[0].value is not None
    )


def _local_names(node: ast.FunctionDef) -> frozenset[str]:
    """Return a function's arguments and the names that it assigns."""
    stored = (
        inner.id
        for inner in ast.walk(node)
        if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store)
    )
    return frozenset([argument.arg for argument in node.args.args]).union(stored)


__all__ = ["CallInlining"]
