"""Loop programs that several tests compile."""

from __future__ import annotations

from typing import Any

import numpy as np

from tfjit.framework.types import dtypes as d
from tfjit.kernels.ir.loop_program import Block, LoopProgram, Step
from tfjit.kernels.registry import TensorSpec


class Maker:
    """Writes programs by hand; values are numbers."""

    def __init__(self) -> None:
        self.values: list[TensorSpec] = []
        self.constants: list[tuple[int, Any]] = []
        self.blocks: list[list[Step]] = [[]]

    def value(self, dtype: Any, *shape: int) -> int:
        self.values.append(TensorSpec(dtype, shape))
        return len(self.values) - 1

    def constant(self, value: Any) -> int:
        number = self.value(d.as_dtype(np.asarray(value).dtype))
        self.constants.append((number, value))
        return number

    def op(
        self,
        op: str,
        *args: int,
        dtype: Any = None,
        blocks: tuple[Block, ...] = (),
        shape: tuple[int, ...] | None = None,
    ) -> int:
        size = (
            max((self.values[a].shape for a in args), key=lambda s: (len(s), s))
            if shape is None
            else shape
        )
        result = self.value(dtype or self.values[args[-1]].dtype, *size)
        self.blocks[-1].append(Step(op, args, (result,), (), blocks, op.lower()))
        return result

    def block(self, params: tuple[int, ...], write: Any) -> Block:
        self.blocks.append([])
        results = write(*params)
        return Block(
            params,
            tuple(self.blocks.pop()),
            tuple(results if isinstance(results, (tuple, list)) else [results]),
        )

    def loop(
        self, first: list[int], shapes: list[tuple[int, ...]], condition: Any, body: Any
    ) -> tuple[int, ...]:
        dtypes = [self.values[a].dtype for a in first]
        blocks = [
            self.block(tuple(self.value(t, *s) for t, s in zip(dtypes, shapes)), write)
            for write in (condition, body)
        ]
        results = tuple(self.value(t, *s) for t, s in zip(dtypes, shapes))
        self.blocks[-1].append(Step("While", tuple(first), results, (), tuple(blocks), "loop"))
        return results

    def program(self, inputs: list[int], outputs: list[int]) -> LoopProgram:
        return LoopProgram(
            tuple(self.values),
            tuple(self.constants),
            tuple(inputs),
            Block((), tuple(self.blocks[0]), ()),
            tuple(outputs),
            "test loop",
        )


def escape(size: int) -> LoopProgram:
    """Iterate z = z * z + c where |z| < 2.

    The iterations are counted, with a branch on the iteration number.
    """
    m = Maker()
    c, n = m.value(d.float32, size), m.value(d.int32)
    one, four, zero, half = (
        m.constant(np.int32(1)),
        m.constant(np.float32(4)),
        m.constant(np.float32(0)),
        m.constant(np.float32(0.5)),
    )
    start = m.constant(np.int32(0))

    def body(i: int, z: int, count: int) -> list[int]:
        square = m.op("Square", z)
        live = m.op("Less", square, four, dtype=d.bool)
        odd = m.op("Equal", m.op("BitwiseAnd", i, one), one, dtype=d.bool)
        moved = m.value(d.float32, size)
        sides = (
            m.block((), lambda: m.op("AddV2", square, c)),
            m.block((), lambda: m.op("Mul", m.op("AddV2", square, c), half)),
        )
        m.blocks[-1].append(Step("If", (odd,), (moved,), (), sides, "branch"))
        following = m.op("SelectV2", live, moved, z)
        counted = m.op("AddV2", count, m.op("SelectV2", live, one, start, shape=(size,)))
        return [m.op("AddV2", i, one), following, counted]

    results = m.loop(
        [start, zero, start],
        [(), (size,), (size,)],
        lambda i, z, k: m.op("Less", i, n, dtype=d.bool),
        body,
    )
    return m.program([c, n], list(results))
