"""Describe NVIDIA GPUs as a backend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from tfjit.kernels.cuda import registry
from tfjit.kernels.ir.backend import Backend, FusionRules
from tfjit.kernels.registry import (
    Builder,
    NativeCall,
    NodeSpec,
    Reference,
    Unsupported,
    find_reference,
)

if TYPE_CHECKING:
    import numpy as np

    from tfjit.framework.types.dtypes import DType
    from tfjit.kernels.ir.accelerator import Accelerator
    from tfjit.kernels.ir.fused_group import FusedGroup

_HOST_NUMBERS: Final = frozenset({"int32"})
"""Types that TensorFlow's GPU kernels of arithmetic keep in host memory: shapes, above all."""
_ON_EITHER_SIDE: Final = frozenset(
    {
        *("VariableV2", "Variable", "VarHandleOp", "VarIsInitializedOp", "IsVariableInitialized"),
        *("DestroyResourceOp", "VariableShape", "Const", "Shape", "ShapeN", "Size", "Rank"),
        *("ReadVariableOp", "NoOp"),
    }
)
"""Ops that a GPU takes, and the host computes."""


class CudaBackend(Backend):
    """Use CUDA kernels where a builder has them; the host computes all else."""

    device_type = "GPU"
    name = "cuda"
    priority = 210
    accelerates = True

    def __init__(self) -> None:
        self._accelerators: dict[int, Accelerator] = {}

    def device_count(self, config: Any) -> int:
        from tfjit.kernels.cuda.accelerator import device_count

        found = device_count()
        if config is not None and self.device_type in config.device_count:
            return min(found, int(config.device_count[self.device_type]))
        return found

    def accelerator(self, number: int) -> Accelerator:
        found = self._accelerators.get(number)
        if found is None:
            from tfjit.kernels.cuda.accelerator import accelerator

            found = self._accelerators.setdefault(number, accelerator(number))
        return found

    def has_kernel(self, op: str, dtypes: Sequence[DType]) -> bool:
        return op in _ON_EITHER_SIDE or registry.find_builder(op) is not None

    def computes(self, op: str, dtypes: Sequence[DType]) -> bool:
        """Return whether nodes of an op and dtypes run on the GPU itself.

        Others that are placed there are computed in host memory, as TensorFlow's kernels of
        shape arithmetic are.
        """
        if registry.find_builder(op) is None:
            return False
        return not dtypes or any(d.base_dtype.name not in _HOST_NUMBERS for d in dtypes)

    def kernel(self, op: str) -> Reference | None:
        return find_reference(op)

    def compiles(self, op: str) -> bool:
        return op == "_Fused" or registry.find_builder(op) is not None

    def native_call(self, spec: NodeSpec) -> NativeCall:
        if spec.op == "_Fused":
            from tfjit.kernels.cuda.fused import group_call

            return group_call(spec.attrs["group"].for_inputs(spec.inputs), spec.constants)
        builder = registry.find_builder(spec.op)
        if builder is None:
            raise Unsupported(f"no CUDA builder for {spec.op}")
        return builder(spec)

    @property
    def fusion(self) -> FusionRules:
        from tfjit.kernels.cuda.fusion_rules import RULES

        return RULES

    def member_call(
        self, group: FusedGroup, known: Mapping[int, np.ndarray], build: Builder
    ) -> NativeCall:
        from tfjit.kernels.cpu.template.call_chain import chained_call

        return chained_call(group, known, build)

    def traffic_ns(self, nbytes: int) -> float:
        return 1500.0 + nbytes / 2000.0
