"""Build fused groups op by op, with the values that NumPy gives."""

from __future__ import annotations

from typing import Any

import numpy as np

import tfjit.kernels.cpu  # noqa: F401  (registers every kernel)
from tests.kernels.launching import run_native, tensor
from tfjit.framework.scalar import elementwise
from tfjit.kernels.cpu.elementwise.loop import loop_call
from tfjit.kernels.ir.fused_group import CONSTANT, INPUT, FusedGroup, Member, Ref
from tfjit.kernels.registry import NativeCall, NodeSpec


class GroupBuilder:
    """Builds a loop group op by op; values are Refs, shapes follow NumPy's broadcasting."""

    def __init__(self, *inputs: np.ndarray) -> None:
        self.arrays = list(inputs)
        self.members: list[Member] = []
        self.constants: list[np.ndarray] = []
        self.values: dict[Ref, np.ndarray] = {Ref(INPUT, k): a for k, a in enumerate(inputs)}

    def input(self, k: int) -> Ref:
        return Ref(INPUT, k)

    def constant(self, value: np.ndarray) -> Ref:
        self.constants.append(value)
        ref = Ref(CONSTANT, len(self.constants) - 1)
        self.values[ref] = value
        return ref

    def op(self, op: str, *args: Ref, value: np.ndarray | None = None, **attrs: object) -> Ref:
        """Append a member. value: its result, where no row of the table says."""
        arrays = [self.values[a] for a in args]
        if value is None:
            row = elementwise.lookup(op)
            assert row is not None
            with np.errstate(all="ignore"):
                value = np.asarray(
                    row.reference(*arrays, **{k: v for k, v in attrs.items() if k in row.attrs})
                )
        spec = NodeSpec(
            f"n{len(self.members)}", op, attrs, tuple(tensor(a) for a in arrays), (tensor(value),)
        )
        self.members.append(Member(spec, args))
        ref = Ref(len(self.members) - 1)
        self.values[ref] = value
        return ref

    def group(self, *outputs: Ref) -> FusedGroup:
        inputs = tuple(tensor(a) for a in self.arrays)
        return FusedGroup("loop", tuple(self.members), inputs, outputs, tuple(self.constants))

    def check(self, *outputs: Ref, rtol: float = 0.0, nchunks: int = 0) -> NativeCall:
        """Compile and compare every output, bit for bit unless `rtol` is given."""
        group = self.group(*outputs)
        call = loop_call(group)
        results = run_native(call, self.arrays, [group.tensor(r) for r in outputs], nchunks)
        for ref, result in zip(outputs, results):
            if rtol:
                np.testing.assert_allclose(result, self.values[ref], rtol=rtol, atol=1e-7)
            else:
                np.testing.assert_array_equal(result, self.values[ref])
        return call


def floats(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float32)


NUMPY = {
    "Sum": np.sum,
    "Mean": np.mean,
    "Prod": np.prod,
    "Max": np.max,
    "Min": np.min,
    "All": np.all,
    "Any": np.any,
}


class ReduceBuilder(GroupBuilder):
    """A GroupBuilder that also takes reductions."""

    def reduce(self, op: str, x: Ref, axes: tuple[int, ...], keep: bool = False) -> Ref:
        value = NUMPY[op](self.values[x].astype(np.float64), axis=axes, keepdims=keep).astype(
            self.values[x].dtype
        )
        return self.op(
            op, x, self.constant(np.array(axes, np.int32)), value=np.asarray(value), keep_dims=keep
        )

    def run(
        self,
        kind: str,
        builder: Any,
        *outputs: Ref,
        rtol: float = 2e-6,
        atol: float = 1e-6,
        nchunks: int = 0,
    ) -> Any:
        """Compile, compare every output, return the call."""
        plain = self.group(*outputs)
        group = FusedGroup(kind, plain.members, plain.inputs, plain.outputs, plain.constants)
        call = builder(group)
        for ref, result in zip(
            outputs, run_native(call, self.arrays, [group.tensor(r) for r in outputs], nchunks)
        ):
            np.testing.assert_allclose(result, self.values[ref], rtol=rtol, atol=atol)
        return call
