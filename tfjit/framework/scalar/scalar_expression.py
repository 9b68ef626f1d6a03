"""An elementwise op written as an expression of others.

"x * sigmoid(beta * x)" becomes steps, each an op of the elementwise table.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import numpy as np

from tfjit.framework.scalar import elementwise
from tfjit.framework.scalar.elementwise import LITERAL, Step
from tfjit.framework.types.dtypes import DType

_ALIASES: Final = {
    "add": "AddV2", "divide": "RealDiv", "greater_equal": "GreaterEqual", "multiply": "Mul",
    "negative": "Neg", "power": "Pow", "subtract": "Sub", "truediv": "RealDiv", "where": "SelectV2",
}  # fmt: skip
_BINARY: Final[dict[type[ast.operator], tuple[str, str]]] = {  # for numbers, for bools
    ast.Add: ("AddV2", ""), ast.Sub: ("Sub", ""), ast.Mult: ("Mul", ""), ast.Div: ("RealDiv", ""),
    ast.FloorDiv: ("FloorDiv", ""), ast.Mod: ("FloorMod", ""), ast.Pow: ("Pow", ""),
    ast.BitAnd: ("BitwiseAnd", "LogicalAnd"), ast.BitOr: ("BitwiseOr", "LogicalOr"),
    ast.BitXor: ("BitwiseXor", "NotEqual"), ast.LShift: ("LeftShift", ""),
    ast.RShift: ("RightShift", ""),
}  # fmt: skip
_UNARY: Final[dict[type[ast.unaryop], tuple[str, str]]] = {
    ast.USub: ("Neg", ""), ast.Invert: ("Invert", "LogicalNot"), ast.Not: ("", "LogicalNot"),
}  # fmt: skip
_COMPARE: Final[dict[type[ast.cmpop], str]] = {
    ast.Eq: "Equal", ast.NotEq: "NotEqual", ast.Lt: "Less", ast.LtE: "LessEqual", ast.Gt: "Greater",
    ast.GtE: "GreaterEqual",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Expression:
    """A parsed expression.

    text: the source. steps: in order of computation; the last is the value. signature: "T" or
    "bool" an input. result: "T" or "bool". dtypes: allowed values of T. cost_ns: predicted, an
    element.
    """

    text: str
    steps: tuple[Step, ...]
    signature: tuple[str, ...]
    result: str
    dtypes: frozenset[DType]
    cost_ns: float

    def evaluate(self, *inputs: Any, **attrs: Any) -> np.ndarray:
        """Return the value for arrays, by the steps' NumPy references.

        inputs: arrays of one dtype, and bool arrays.
        """
        typed = next(x for x, kind in zip(inputs, self.signature, strict=True) if kind == "T").dtype
        values = list(inputs)
        for step in self.steps:
            if step.op == LITERAL:
                value: Any = step.value
                if isinstance(value, str):
                    value = attrs[value]
                    # as it is on the wire
                    value = np.float32(value) if isinstance(value, float) else value
                values.append(np.asarray(value).astype(typed))
            else:
                row = elementwise.lookup(step.op)
                assert row is not None
                operands = [values[a] for a in step.args]
                if row.error is not None and row.error.occurs(operands):
                    from tfjit.framework import errors

                    raise getattr(errors, row.error.kind)(None, None, row.error.message)
                values.append(np.asarray(row.reference(*operands)))
        # of all inputs, also of those that the expression leaves out
        shape = np.broadcast_shapes(*(np.shape(x) for x in inputs))
        result = np.asarray(values[-1])
        return result if result.shape == shape else np.broadcast_to(result, shape).copy()


@cache
def _functions() -> Mapping[str, str]:
    """Return function name -> op type, by Python names.

    The ops are the table's ops over one type of number.
    """
    found = {}
    for row in elementwise.TABLE:
        if row.arity > 0 and not row.attrs and row.result in ("T", "bool"):
            found[re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", row.op).lower()] = row.op
    return found | _ALIASES


def parse(text: str, inputs: Mapping[str, str], attrs: Sequence[str] = ()) -> Expression:
    """Return an expression over inputs and number attrs by name.

    inputs: name -> "T" (a number; all such inputs share one dtype) or "bool". It may hold numbers,
    Python's operators and comparisons, `a if c else b`, and calls of elementwise functions (exp,
    tanh, maximum, where ...). Raises ValueError, quoting the part at fault, for anything else.
    """
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except SyntaxError as error:
        raise ValueError(f"expression {text!r}: {error.msg}") from None
    reader = _Reader(text, inputs, frozenset(attrs))
    last, kind = reader.read(tree.body)
    if not reader.steps:  # the bare name of an input
        reader.steps.append(Step("LogicalAnd" if kind == "bool" else "Maximum", (last, last)))
        reader.typed.append(kind == "T")
    if "T" not in inputs.values():
        raise ValueError(f"expression {text!r}: none of its inputs is a number")
    rows = [row for step in reader.steps if (row := elementwise.lookup(step.op)) is not None]
    allowed = elementwise.REALS | elementwise.COMPLEX
    for row, typed in zip(rows, reader.typed, strict=True):
        if typed:
            allowed = allowed & row.dtypes
    if reader.fractions:
        allowed = allowed & (elementwise.FLOATS | elementwise.COMPLEX)
    if not allowed:
        raise ValueError(f"expression {text!r}: no dtype has all of its functions")
    return Expression(
        text,
        tuple(reader.steps),
        tuple(inputs.values()),
        kind,
        allowed,
        sum(row.cost_ns for row in rows),
    )


def _number(node: ast.expr) -> float | int | None:
    """Return the value of a number in the text."""
    if (
        isinstance(node, ast.Constant)
        and isinstance(node.value, (int, float))
        and not isinstance(node.value, bool)
    ):
        return node.value
    return None


class _Reader:
    """Turns a syntax tree into steps; equal ones are kept once."""

    def __init__(self, text: str, inputs: Mapping[str, str], attrs: frozenset[str]) -> None:
        self.text = text
        self.inputs = inputs
        self.attrs = attrs
        self.steps: list[Step] = []
        # of each step with a row: True if it computes with numbers of type T
        self.typed: list[bool] = []
        self.fractions = False  # a literal is no integer
        self._numbers = {name: i for i, name in enumerate(inputs)}
        self._known: dict[Step, int] = {}

    def fail(self, node: ast.AST, why: str) -> ValueError:
        return ValueError(f"expression {self.text!r}: {why} (at {ast.unparse(node)!r})")

    def read(self, node: ast.expr) -> tuple[int, str]:
        """Return (number of the value, "T" or "bool")."""
        if isinstance(node, ast.Name):
            if node.id in self._numbers:
                return self._numbers[node.id], self.inputs[node.id]
            if node.id in self.attrs:
                return self._literal(node.id)
            raise self.fail(
                node,
                f"{node.id!r} is neither an input ({', '.join(self.inputs)}) nor a number attr",
            )
        number = _number(node)
        if number is not None:
            self.fractions |= not float(number).is_integer()
            return self._literal(number)
        if isinstance(node, ast.BinOp):
            if (
                isinstance(node.op, ast.Pow)
                and isinstance(node.right, ast.Constant)
                and node.right.value == 2
            ):
                return self._apply(node, "Square", [self.read(node.left)])
            return self._choose(node, _BINARY.get(type(node.op)), [node.left, node.right])
        if isinstance(node, ast.UnaryOp):
            if isinstance(node.op, ast.UAdd):
                return self.read(node.operand)
            positive = _number(node.operand)
            if isinstance(node.op, ast.USub) and positive is not None:
                return self.read(ast.Constant(-positive))
            return self._choose(node, _UNARY.get(type(node.op)), [node.operand])
        if isinstance(node, ast.BoolOp):
            op = "LogicalAnd" if isinstance(node.op, ast.And) else "LogicalOr"
            total = self.read(node.values[0])
            for value in node.values[1:]:
                total = self._apply(node, op, [total, self.read(value)])
            return total
        if isinstance(node, ast.Compare):
            return self._compare(node)
        if isinstance(node, ast.IfExp):
            return self._apply(
                node,
                "SelectV2",
                [self.read(node.test), self.read(node.body), self.read(node.orelse)],
            )
        if isinstance(node, ast.Call):
            return self._call(node)
        raise self.fail(
            node,
            "only numbers, names, operators, comparisons, conditionals and calls are understood",
        )

    def _call(self, node: ast.Call) -> tuple[int, str]:
        op = _functions().get(node.func.id) if isinstance(node.func, ast.Name) else None
        if op is None:
            name = ast.unparse(node.func)
            near = [known for known in sorted(_functions()) if known[:3] == name[:3]]
            hint = f"; did you mean {', '.join(near[:4])}?" if near else ""
            raise self.fail(node, f"there is no elementwise function {name!r}{hint}")
        if node.keywords:
            raise self.fail(node, "functions take their arguments by position")
        return self._apply(node, op, [self.read(a) for a in node.args])

    def _compare(self, node: ast.Compare) -> tuple[int, str]:
        total: tuple[int, str] | None = None
        left = self.read(node.left)
        for sign, term in zip(node.ops, node.comparators, strict=True):
            op = _COMPARE.get(type(sign))
            if op is None:
                raise self.fail(node, "this comparison has no elementwise form")
            right = self.read(term)
            one = self._apply(node, op, [left, right])
            total = one if total is None else self._apply(node, "LogicalAnd", [total, one])
            left = right
        assert total is not None
        return total

    def _choose(
        self, node: ast.expr, ops: tuple[str, str] | None, operands: list[ast.expr]
    ) -> tuple[int, str]:
        values = [self.read(operand) for operand in operands]
        op = ops[values[0][1] == "bool"] if ops is not None else ""
        if not op:
            raise self.fail(
                node,
                f"this operator has no form for {'bool' if values[0][1] == 'bool' else 'numbers'}",
            )
        return self._apply(node, op, values)

    def _apply(self, node: ast.expr, op: str, values: list[tuple[int, str]]) -> tuple[int, str]:
        row = elementwise.lookup(op)
        assert row is not None
        if len(values) != row.arity:
            raise self.fail(node, f"it takes {row.arity} arguments")
        of_bools = row.dtypes == elementwise.BOOL
        both = op in ("Equal", "NotEqual", "SelectV2") and values[-1][1] == "bool"
        wanted = ["bool" if kind == "bool" or of_bools or both else "T" for kind in row.signature]
        for k, ((_, given), expected) in enumerate(zip(values, wanted, strict=True)):
            if given != expected:
                given, expected = (
                    "a bool" if kind == "bool" else "a number" for kind in (given, expected)
                )
                raise self.fail(node, f"argument {k} is {given}, not {expected}")
        typed = not of_bools and not both
        result = "bool" if row.result == "bool" or not typed else "T"
        return self._step(Step(op, tuple(number for number, _ in values)), typed), result

    def _literal(self, value: float | str) -> tuple[int, str]:
        return self._step(Step(LITERAL, (), value), None), "T"

    def _step(self, step: Step, typed: bool | None) -> int:
        key = Step(step.op, step.args, repr(step.value))
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = len(self.inputs) + len(self.steps)
            self.steps.append(step)
            if typed is not None:
                self.typed.append(typed)
        return found
