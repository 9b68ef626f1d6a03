"""Emit the micro-kernel of maximum pooling's gradient.

The windows must not overlap. For the compiler process only, like micro_kernels_ir.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from llvmlite import ir

from tfjit.kernels.cpu.gemm.micro_kernels_ir import (
    VectorBuilder,
    call_address,
    intrinsic_of,
    loop,
    over_vectors,
)

ARGUMENTS: Final = 9
_WORD: Final = ir.IntType(64)
_LOWEST: Final = {"f32": -3.4028234663852886e38, "f64": -1.7976931348623157e308}


def spread_windows(
    kind: str, lanes: int, ntaps: int, relu: bool = False, summed: bool = False
) -> Any:
    """Write the gradients of `count` windows to the inputs they read.

    The first largest input of a window gets all of its gradient, the others get zero. Arguments: x,
    taps, dy, dx, channels, count, step, dy_step, totals; step: bytes from one window to the next in
    x and dx. taps: int64 pairs whose first is a tap's offset. NaN is never the largest; if no input
    is above the lowest finite number the first tap is. relu: x is a ReLU's result, and the gradient
    of the ReLU's input is written: it is zero where the largest is not above zero. summed: the
    written gradient is added to totals, a vector of sums by channel.
    """

    def emit(b: ir.IRBuilder, args: Sequence[ir.Value]) -> None:
        x, taps, dy, dx, channels, count, step, dy_step, totals = args
        v = VectorBuilder(b, kind, lanes)
        places = [
            b.load(b.inttoptr(b.add(taps, ir.Constant(_WORD, 16 * t)), _WORD.as_pointer()))
            for t in range(ntaps)
        ]

        def window(_: ir.Value, state: list[ir.Value]) -> Sequence[ir.Value]:
            x_first, dx_first, dy_first = state

            def vector(offset: ir.Value, mask: ir.Value | None) -> None:
                x_at, dx_at = b.add(x_first, offset), b.add(dx_first, offset)

                def load(address: ir.Value) -> ir.Value:
                    return v.load(address) if mask is None else v.masked_load(address, mask)

                def store(value: ir.Value, address: ir.Value) -> None:
                    if mask is None:
                        v.store(value, address)
                    else:
                        v.masked_store(value, address, mask)

                best = v.splat_of(_LOWEST[kind])
                better = []
                for place in places:
                    value = load(b.add(x_at, place))
                    better.append(b.fcmp_ordered(">", value, best))
                    best = b.select(better[-1], value, best)
                share = load(b.add(dy_first, offset))
                zero = v.splat_of(0)
                if relu:  # a product, so that NaN stays NaN
                    share = b.fmul(
                        share, b.select(b.fcmp_ordered(">", best, zero), v.splat_of(1), zero)
                    )
                if summed:
                    total_at = b.add(totals, offset)
                    store(b.fadd(load(total_at), share), total_at)
                later = None  # set if a later tap was larger still
                for t in reversed(range(ntaps)):
                    own = share if t == 0 else b.select(better[t], share, zero)
                    if later is not None:
                        own = b.select(later, zero, own)
                    later = better[t] if later is None else b.or_(later, better[t])
                    store(own, b.add(dx_at, places[t]))

            # the loop over channels is the inner one: memory is written line after line
            over_vectors(v, channels, vector)
            return [b.add(x_first, step), b.add(dx_first, step), b.add(dy_first, dy_step)]

        loop(b, count, [x, dx, dy], window)

    return intrinsic_of(ARGUMENTS, emit)


call_spread = call_address(ARGUMENTS)
