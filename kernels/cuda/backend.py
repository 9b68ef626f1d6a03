"""Describe NVIDIA GPUs as a backend."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from tfjit.framework import errors
from tfjit.framework.op_defs.op_registry import registry as op_defs
from tfjit.framework.op_defs.op_traits import ASSIGN, READS_STATE, VARIABLE
from tfjit.framework.types.dtypes import string
from tfjit.kernels.cpu.random.draws import DRAWN, has_draw
from tfjit.kernels.cuda.device import devices
from tfjit.kernels.cuda.device.visible_devices import VisibleDevice, visible_devices
from tfjit.kernels.cuda.placed_ops import HOST_COMPUTED
from tfjit.kernels.cuda.template import registry
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
    from tfjit.protos import ConfigProto

_HOST_NUMBERS: Final = frozenset({"int32"})
"""Types that TensorFlow's GPU kernels of arithmetic keep in host memory."""
_COMPARISONS: Final = frozenset(
    {"Equal", "NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual"}
)
_OF_NUMBERS: Final = VARIABLE | READS_STATE | ASSIGN
"""Traits of ops without a kernel for strings on a GPU."""


class CudaBackend(Backend):
    """Use CUDA kernels for nodes that have a builder."""

    device_type = "GPU"
    name = "cuda"
    priority = 210
    accelerates = True

    def __init__(self) -> None:
        self._accelerators: dict[int, Accelerator] = {}
        self._devices: dict[int, VisibleDevice] = {}
        self._lock = threading.Lock()

    def device_count(self, config: ConfigProto | None) -> int:
        """Return the number of GPUs that a session sees.

        Raises InvalidArgumentError for options that do not fit the machine, AlreadyExistsError
        where another session of the process has given a number to another GPU.
        """
        if config is not None and config.device_count.get(self.device_type, 1) <= 0:
            return 0
        physical = devices.physical_memory()
        if not physical and not _asks_for_devices(config):
            return 0
        found = visible_devices(config, physical)
        with self._lock:
            for number, device in enumerate(found):
                known = self._devices.setdefault(number, device)
                if known.physical != device.physical:
                    raise errors.AlreadyExistsError(
                        None,
                        None,
                        f"TensorFlow device (GPU:{number}) is being mapped to multiple devices "
                        f"({device.physical} now, and {known.physical} previously), which is not "
                        "supported. This may be the result of providing different GPU "
                        "configurations (ConfigProto.gpu_options, for example different "
                        "visible_device_list) when creating multiple Sessions in the same process.",
                    )
        return len(found)

    def accelerator(self, number: int) -> Accelerator:
        with self._lock:
            found = self._accelerators.get(number)
            if found is None:
                device = self._devices[number]
                found = devices.open_device(device.physical)
                found.memory_limit = device.memory_limit
                self._accelerators[number] = found
            return found

    def memory_limit(self, number: int) -> int:
        return self._devices[number].memory_limit

    def describe(self, number: int) -> str:
        return f"device: {number}, {devices.description(self._devices[number].physical)}"

    def has_kernel(self, op: str, dtypes: Sequence[DType]) -> bool:
        if any(d.base_dtype is string for d in dtypes) and op_defs.has_trait(op, _OF_NUMBERS):
            return False
        return op in HOST_COMPUTED or registry.find_builder(op) is not None

    def computes(self, op: str, dtypes: Sequence[DType]) -> bool:
        """Return whether nodes run on the GPU itself.

        dtypes: of inputs and outputs. Others that are placed there are computed in host memory, as
        TensorFlow's kernels of shape arithmetic are.
        """
        if registry.find_builder(op) is None:
            return False
        refused = registry.refused_types(op)
        if refused and any(d.base_dtype.name in refused for d in dtypes):
            return False
        if op.removesuffix("V2") in DRAWN:
            return not dtypes or has_draw(op, dtypes[-1].base_dtype.name)
        if op in _COMPARISONS and dtypes and dtypes[0].base_dtype.name in _HOST_NUMBERS:
            return False
        return not dtypes or any(d.base_dtype.name not in _HOST_NUMBERS for d in dtypes)

    def kernel(self, op: str) -> Reference | None:
        return find_reference(op)

    def compiles(self, op: str) -> bool:
        return registry.find_builder(op) is not None

    def native_call(self, spec: NodeSpec) -> NativeCall:
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


def _asks_for_devices(config: ConfigProto | None) -> bool:
    """Return whether a configuration names GPUs, which must then be there."""
    return config is not None and bool(config.gpu_options.visible_device_list)
