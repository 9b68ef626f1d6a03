"""Write the steps of reductions, and their exchange between threads."""

from __future__ import annotations

from typing import Final

from tfjit.framework.types import dtypes as d
from tfjit.framework.types.dtypes import DType
from tfjit.kernels.codegen import expressions
from tfjit.kernels.cpu.reduction import reducers
from tfjit.kernels.cpu.reduction.reducers import Reduction
from tfjit.kernels.cuda.template import element_kinds
from tfjit.kernels.source import Source

WARP: Final = 32


def start(kind: str, dtype: DType) -> str:
    """Return the register literal of an empty reduction's value."""
    text = reducers.start(kind, dtype)
    return f"boolean({text})" if kind in ("all", "any") else text


def step(kind: str, dtype: DType, total: str, value: str) -> str:
    """Return the expression of `total` combined with `value`."""
    if kind in ("all", "any"):
        return f"{total} {'&' if kind == 'all' else '|'} {value}"
    if kind in ("max", "min"):
        return f"vm.{kind}imum_{element_kinds.math_suffix(dtype)}({total}, {value})"
    if dtype.is_integer:
        return f"{'iadd' if kind == 'sum' else 'imul'}({total}, {value})"
    if kind == "prod" and dtype.is_complex:
        return f"vm.multiply_{element_kinds.math_suffix(dtype)}({total}, {value})"
    return f"{total} {'+' if kind == 'sum' else '*'} {value}"


def masked(kind: str, dtype: DType, condition: str, value: str) -> str:
    """Return the value under a condition, else one without effect."""
    return (
        f"vm.select_{element_kinds.math_suffix(dtype)}({condition}, {value}, {start(kind, dtype)})"
    )


def write_exchange(s: Source, kind: str, dtype: DType, total: str, count: int) -> None:
    """Append the combination of totals of `count` neighbours.

    All of these threads of a warp get it.
    """
    mask = count // 2
    while mask:
        s.line(f"{total} = {step(kind, dtype, total, f'shuffle_xor({total}, {mask})')}")
        mask //= 2


def write_block_exchange(
    s: Source, kind: str, dtype: DType, total: str, count: int, shared: str
) -> None:
    """Append the combination of the totals of `count` threads.

    They are a block or neighbours of a warp. shared: name of a shared array of as many elements as
    there are warps.
    """
    write_exchange(s, kind, dtype, total, min(count, WARP))
    if count > WARP:
        with s.block(f"if thread() & {WARP - 1} == 0:"):
            s.line(f"st_shared({shared}, thread() >> 5, {total})")
        s.line("sync_threads()")
        s.line(f"{total} = ld_shared({shared}, thread() & {count // WARP - 1})")
        write_exchange(s, kind, dtype, total, count // WARP)


def finished(what: Reduction, dtype: DType, result: DType, total: str, count: str) -> str:
    """Return the expression of a result from its total over `count` elements."""
    name = expressions.register_type(dtype)
    if what.mean and dtype.is_integer:
        suffix = element_kinds.math_suffix(dtype)
        # an empty range would divide by zero
        divisor = f"vm.maximum_{suffix}({name}({count}), {name}(1))"
        return f"{expressions.register_type(result)}(vm.truncdiv_{suffix}({total}, {divisor}))"
    value = total
    if what.mean:
        suffix = element_kinds.math_suffix(dtype)
        value = f"{total} / {name}({count})"
        if dtype.is_complex:  # that of no element is zero, as in TensorFlow
            value = f"vm.div_{suffix}({total}, {name}(max({count}, 1)))"
    if what.root:
        value = f"vm.sqrt_{element_kinds.math_suffix(dtype)}({value})"
    if what.half:
        value = f"{value} * {name}(0.5)"
    if dtype is d.bool or dtype.is_complex:
        return value
    return reducers.narrowed(dtype, f"({value})")
