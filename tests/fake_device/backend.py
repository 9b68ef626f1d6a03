"""Define FAKE as a backend.

Separate memory, kernels that are interpreted, templates for fused groups.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from tests.fake_device.ops import OPS
from tfjit.framework.types.dtypes import DType
from tfjit.kernels.ir.backend import Backend
from tfjit.kernels.ir.fused_group import CONSTANT, INPUT, FusedGroup, Ref
from tfjit.kernels.registry import NodeSpec, Reference, Unsupported


@dataclass(frozen=True)
class FakeArray:
    """Hold an array in FAKE's memory.

    NumPy refuses it, so no kernel of the host can read it.
    """

    _data: np.ndarray

    @property
    def shape(self) -> tuple[int, ...]:
        return self._data.shape

    def __array__(self, *args: Any, **kwargs: Any) -> np.ndarray:
        raise TypeError("an array in FAKE's memory is read through FAKE's backend only")


@dataclass(frozen=True)
class _Template:
    """Interpret groups as a template.

    It takes a group of any kind, if it has kernels for all members.
    """

    accepts_plain = False

    def accepts(self, group: FusedGroup) -> None:
        for member in group.members:
            if member.spec.op not in OPS:
                raise Unsupported(f"FAKE has no kernel for {member.spec.op}")


class _Rules:
    """Fuse elementwise nodes, and nodes behind a product or convolution."""

    anchors: ClassVar[Mapping[str, str]] = {"MatMul": "matmul", "Conv2D": "conv2d"}

    def template_of(self, kind: str) -> _Template | None:
        return _Template() if kind in ("loop", "matmul", "conv2d") else None

    def holds(self, dtype: DType) -> bool:
        return dtype.name == "float32"

    def accepts_anchor(self, spec: NodeSpec) -> bool:
        return self.holds(spec.outputs[0].dtype)

    def reduces_by_rows(self, shape: Sequence[int], axes: Sequence[int]) -> bool:
        return False

    def is_cheap(self, op: str) -> bool:
        return False


class FakeBackend(Backend):
    """Describe FAKE devices as a backend.

    calls: every node that it has computed: (op type, name).
    """

    device_type = "FAKE"
    name = "fake"
    memory_limit_bytes = 1 << 20
    description = "interprets nodes in NumPy"

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []

    def to_device(self, value: Any) -> Any:
        return FakeArray(value) if isinstance(value, (np.ndarray, np.generic)) else value

    def to_host(self, value: Any) -> Any:
        return value._data if isinstance(value, FakeArray) else value

    def has_kernel(self, op: str, dtypes: Sequence[DType]) -> bool:
        return op in OPS and all(t.name in ("float32", "int32") for t in dtypes)

    def kernel(self, op: str) -> Reference | None:
        return self._run if op == "_Fused" or op in OPS else None

    @property
    def fusion(self) -> _Rules:
        return _Rules()

    def _run(self, spec: NodeSpec, inputs: Sequence[Any]) -> Sequence[Any]:
        self.calls.append((spec.op, spec.name))
        arrays = [self.to_host(value) for value in inputs]
        if spec.op == "_Fused":
            return [self.to_device(x) for x in _interpreted(spec.attrs["group"], arrays)]
        return [self.to_device(np.asarray(OPS[spec.op](spec.attrs, *arrays)))]


def _interpreted(group: FusedGroup, inputs: Sequence[Any]) -> list[Any]:
    """Return the outputs of a group.

    Its members are computed one after the other.
    """
    values: list[Any] = []

    def value(ref: Ref) -> Any:
        where = {INPUT: inputs, CONSTANT: group.constants}.get(ref.member)
        return values[ref.member] if where is None else where[ref.index]

    for member in group.members:
        op = member.spec.op
        values.append(OPS[op](member.spec.attrs, *(value(ref) for ref in member.inputs)))
    return [value(ref) for ref in group.outputs]
