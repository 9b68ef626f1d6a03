"""Find the epilogues that NVIDIA's libraries compute within a product or convolution.

They add an array of the result's shape and a bias along the last axis, and end in relu, gelu by
tanh, or nothing. A program is gelu if it is that polynomial of x and t = tanh(p(x)), whatever the
order of its operations.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

from tfjit.framework.types import dtypes as d
from tfjit.kernels.cuda.libraries.product_problem import ProductEpilogue

if TYPE_CHECKING:
    from tfjit.kernels.cpu.template.epilogue import Epilogue, Pattern
    from tfjit.kernels.ir.scalar_program import Program, ScalarOp

_MOST_DEGREE: Final = 4

Polynomial = dict[tuple[int, int], float]
"""Coefficients by the powers of x and of t."""

_CUBIC: Final[Polynomial] = {
    (1, 0): math.sqrt(2 / math.pi),
    (3, 0): 0.044715 * math.sqrt(2 / math.pi),
}
_GELU: Final[Polynomial] = {(1, 0): 0.5, (1, 1): 0.5}


@dataclass(frozen=True, slots=True)
class LibraryEpilogue:
    """An epilogue of a library.

    bias: the number of the operand, None for no bias. added: that of an array.
    """

    name: ProductEpilogue
    bias: int | None = None
    added: int | None = None


def library_epilogue(
    epilogue: Epilogue | None, scalars: Mapping[int, float]
) -> LibraryEpilogue | None:
    """Return an epilogue as libraries name it, or None.

    scalars: known values of operands, by number.
    """
    if epilogue is None:
        return LibraryEpilogue("")
    program = epilogue.program
    if len(program.outputs) != 1 or not program.ops:
        return None
    if any(op.dtype is not program.inputs[0] for op in program.ops):
        return None
    if program.outputs[0] != len(program.inputs) + len(program.ops) - 1:
        return None
    ops, x = list(program.ops), 0
    added: dict[Pattern, int] = {}
    while ops and (found := _added(epilogue, ops, x)) is not None:
        pattern, number = found
        if pattern in added:
            return None
        added[pattern] = number
        x = len(program.inputs) + len(program.ops) - len(ops)
        del ops[0]
    name = _function(program, ops, x, scalars)
    if name is None:
        return None
    parts = [*(["bias"] if "channel" in added else []), *([name] if name else [])]
    return LibraryEpilogue(
        cast("ProductEpilogue", "+".join(parts)), added.get("channel"), added.get("full")
    )


def _added(epilogue: Epilogue, ops: Sequence[ScalarOp], x: int) -> tuple[Pattern, int] | None:
    """Return the operand that the first operation adds to x, or None.

    The result has its pattern and number. No other operation uses either of them.
    """
    program, first = epilogue.program, ops[0]
    if first.op not in ("Add", "AddV2", "AddN") or len(first.args) != 2 or x not in first.args:
        return None
    place = first.args[1 - first.args.index(x)]
    number = place - 1
    if not 0 <= number < len(epilogue.patterns):
        return None
    pattern = epilogue.patterns[number]
    if pattern not in ("channel", "full") or program.inputs[place] is not program.inputs[0]:
        return None
    if any(arg in (x, place) for op in ops[1:] for arg in op.args):
        return None
    return pattern, number


def _function(
    program: Program, ops: list[ScalarOp], x: int, scalars: Mapping[int, float]
) -> str | None:
    """Return the function of x that operations compute.

    It is "" for x itself, None for one that libraries lack.
    """
    if not ops:
        return ""
    if len(ops) == 1 and ops[0].op == "Relu" and ops[0].args == (x,):
        return "relu"
    dtype = program.inputs[0]
    if dtype is d.float64:  # its tanh would have to be exact
        return None
    tolerance = 1e-6 if dtype is d.float32 else 1e-2  # of constants that are rounded to the dtype
    values: dict[int, Polynomial | None] = {
        number + 1: {(0, 0): value} for number, value in scalars.items()
    }
    values[x] = {(1, 0): 1.0}
    first = len(program.inputs) + len(program.ops) - len(ops)
    for number, op in enumerate(ops, first):
        values[number] = _value(op, [values.get(arg) for arg in op.args], tolerance)
    found = values[first + len(ops) - 1]
    return "gelu" if found is not None and _are_close(found, _GELU, tolerance) else None


def _value(op: ScalarOp, args: list[Polynomial | None], tolerance: float) -> Polynomial | None:
    """Return an operation's value as a polynomial, None for another function."""
    known = [arg for arg in args if arg is not None]
    if len(known) < len(args):
        return None
    match op.op:
        case "Add" | "AddV2":
            return _sum(*known)
        case "Mul":
            return _product(*known)
        case "Square":
            return _product(known[0], known[0])
        case "Pow":
            base, exponent = known
            times = exponent.get((0, 0), 0.0)
            if exponent.keys() != {(0, 0)} or times not in (1.0, 2.0, 3.0):
                return None
            power: Polynomial | None = base
            for _ in range(int(times) - 1):
                power = None if power is None else _product(power, base)
            return power
        case "Tanh":
            return {(0, 1): 1.0} if _are_close(known[0], _CUBIC, tolerance) else None
    return None


def _sum(a: Polynomial, b: Polynomial) -> Polynomial:
    return {power: a.get(power, 0.0) + b.get(power, 0.0) for power in a.keys() | b.keys()}


def _product(a: Polynomial, b: Polynomial) -> Polynomial | None:
    found: Polynomial = {}
    for (i, j), one in a.items():
        for (k, m), other in b.items():
            if i + k > _MOST_DEGREE or j + m > 1:
                return None
            found[i + k, j + m] = found.get((i + k, j + m), 0.0) + one * other
    return found


def _are_close(a: Polynomial, b: Polynomial, tolerance: float) -> bool:
    return a.keys() == b.keys() and all(math.isclose(a[k], b[k], rel_tol=tolerance) for k in b)


__all__ = ["LibraryEpilogue", "library_epilogue"]
