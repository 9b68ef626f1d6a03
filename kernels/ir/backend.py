"""Declare the protocol of device backends, and register them.

Passes and runtime ask the backend of a partition's device for rules, kernels and costs: they import
no device's folder. A plan asks while it is built; a run asks nothing. The folder of a device (such
as `kernels/cpu/`) has one class derived from `Backend` and is registered by one call of
`register_backend`; its sessions, placement, fusion and executor then know the device.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any, Final, Protocol

from tfjit.framework import errors
from tfjit.kernels.registry import Unsupported

if TYPE_CHECKING:
    import numpy as np

    from tfjit.framework.types.dtypes import DType
    from tfjit.kernels.ir.accelerator import Accelerator
    from tfjit.kernels.ir.fused_group import FusedGroup
    from tfjit.kernels.ir.loop_program import LoopProgram
    from tfjit.kernels.registry import (
        BoundedCall,
        Builder,
        NativeCall,
        NodeSpec,
        Reference,
        TensorSpec,
    )

HOST: Final = "CPU"
"""The type of device that receives feeds; every process has one."""


class Template(Protocol):
    """Describe a form of fused group that a backend has kernels for."""

    @property
    def accepts_plain(self) -> bool:
        """Return whether groups plainly of its form are accepted unseen.

        A plain loop has members over one shape that move nothing. The operands of a plain epilogue
        are scalars, vectors along the last axis or of the product's shape.
        """

    def accepts(self, group: FusedGroup) -> None:
        """Raise Unsupported where the template does not take a group."""


class FusionRules(Protocol):
    """Judge nodes and groups for a device, while fusion groups nodes.

    anchors: op types that an epilogue may follow, with the kind of group they make.
    """

    anchors: Mapping[str, str]

    def template_of(self, kind: str) -> Template | None:
        """Return the template for a kind of group, or None."""

    def holds(self, dtype: DType) -> bool:
        """Return whether fused kernels load and store a dtype."""

    def accepts_anchor(self, spec: NodeSpec) -> bool:
        """Return whether a node of an anchor type may start a group.

        spec.constants: the inputs with known values; spec.inputs is empty.
        """

    def reduces_by_rows(self, shape: Sequence[int], axes: Sequence[int]) -> bool:
        """Return whether a reduction is of kind "rows", not "reduce"."""

    def is_cheap(self, op: str) -> bool:
        """Return whether computing an op again costs less than keeping its result."""


class Backend(ABC):
    """Describe one type of device to the compiler and the runtime.

    device_type: in device names, upper case. name: for people, in explanations. priority: of two
    types that both compute a node, placement takes the one with the higher priority.
    memory_limit_bytes, description: of each device, as sessions list them. lowers: partitions run
    as straight-line steps: kernels work on arrays in host memory, and `native_call` gives launches
    of the kernel ABI. accelerates: its devices are `accelerator(number)`, and `native_call` gives
    launches for them; parts of the host's partition are offloaded to them. Partitions of other
    backends are run by the dataflow executor.
    """

    device_type: str
    name: str
    priority = 50
    memory_limit_bytes = 0
    description = ""
    lowers = False
    accelerates = False

    # devices

    def device_count(self, config: Any) -> int:
        """Return the number of devices of a session.

        config: the session's ConfigProto, or None.
        """
        if config is not None and self.device_type in config.device_count:
            return int(config.device_count[self.device_type])
        return 1

    def memory_limit(self, number: int) -> int:
        """Return the bytes of a device that sessions list."""
        return self.memory_limit_bytes

    def describe(self, number: int) -> str:
        """Return the description of a device that sessions list."""
        return self.description

    def accelerator(self, number: int) -> Accelerator:
        """Return a device that has memory and a queue.

        number: among the devices of `device_count`. Raises UnimplementedError where the backend's
        devices have none.
        """
        raise errors.UnimplementedError(None, None, f"{self.device_type} has no accelerator")

    # memory

    def to_device(self, value: Any) -> Any:
        """Return a host array as kernels of this device take arrays.

        The array is a constant or received. The result has the array's `shape`. Strings, resources
        and variants stay as they are. A kernel gets arguments such as shapes and axes as host
        arrays or as this method gives them (`passes/analysis/host_memory.py`).
        """
        return value

    def to_host(self, value: Any) -> Any:
        """Return a value that leaves the device as a host array.

        A host array (a shape, say) is given back as it is.
        """
        return value

    # nodes

    @abstractmethod
    def has_kernel(self, op: str, dtypes: Sequence[DType]) -> bool:
        """Return whether the device computes an op. dtypes: of inputs and outputs.

        Ops that only pass values on (Const, Identity, Switch ...) run on every device unasked.
        """

    @abstractmethod
    def kernel(self, op: str) -> Reference | None:
        """Return the callable that computes nodes of an op type, or None.

        Fused groups come as `_Fused` (attr `group`).
        """

    def compiles(self, op: str) -> bool:
        """Return whether `native_call` may serve nodes of an op type."""
        return False

    def computes(self, op: str, dtypes: Sequence[DType]) -> bool:
        """Return whether an accelerator's own kernels compute nodes of an op.

        dtypes: of inputs and outputs. Other nodes that are placed there run on the host.
        """
        return self.compiles(op)

    def native_call(self, spec: NodeSpec) -> NativeCall:
        """Return the launches that compute a node. Raises Unsupported."""
        raise Unsupported(f"the {self.name} backend compiles no kernels")

    def bounds(self, op: str) -> bool:
        """Return whether `bounded_call` knows an op type."""
        return False

    def bounded_call(self, spec: NodeSpec) -> BoundedCall:
        """Return the launch of a node with sizes that depend on values.

        spec: without outputs. Raises Unsupported.
        """
        raise Unsupported(f"the {self.name} backend compiles no kernels")

    # fused groups and loops

    @property
    def fusion(self) -> FusionRules | None:
        """Return the rules of fusion, None for a device without fusion."""
        return None

    def member_call(
        self, group: FusedGroup, known: Mapping[int, np.ndarray], build: Builder
    ) -> NativeCall:
        """Return the launches of a group's members in a row. Raises Unsupported.

        known: values of the group's inputs. build: makes the call of a member.
        """
        raise Unsupported(f"the {self.name} backend compiles no kernels")

    def loop_call(self, program: LoopProgram) -> NativeCall:
        """Return the launch of a whole loop. Raises Unsupported."""
        raise Unsupported(f"the {self.name} backend compiles no loops")

    def part_copy(self, whole: TensorSpec, part: tuple[slice, ...], reads: bool) -> NativeCall:
        """Return the copy of an array's part to a separate array.

        reads: else from the separate array back into the whole. Raises Unsupported.
        """
        raise Unsupported(f"the {self.name} backend compiles no kernels")

    # costs

    def traffic_ns(self, nbytes: int) -> float:
        """Return the predicted time to move bytes to and from memory."""
        return 0.0


# device type -> (factory,): a tuple is known again by its identity, so no lock is needed
_FACTORIES: dict[str, tuple[str]] = {}
_LOADED: dict[str, Backend] = {}


def register_backend(device_type: str, factory: str) -> None:
    """Register a type of device for sessions made from now on.

    factory: "module:name" of a function or class that gives the Backend, imported on first use.
    Raises AlreadyExistsError for a type that is registered.
    """
    entry = (factory,)
    found = _FACTORIES.setdefault(device_type, entry)
    if found is not entry:
        raise errors.AlreadyExistsError(
            None, None, f"a backend for {device_type} is registered: {found[0]}"
        )


def unregister_backend(device_type: str) -> None:
    """Forget a type of device. Sessions that have such devices keep them."""
    _FACTORIES.pop(device_type, None)
    _LOADED.pop(device_type, None)


def backend_for(device_type: str) -> Backend:
    """Return the backend of a registered type of device. Raises NotFoundError."""
    found = _LOADED.get(device_type)
    if found is None:
        entry = _FACTORIES.get(device_type)
        if entry is None:
            raise errors.NotFoundError(None, None, f"no backend for {device_type} is registered")
        (factory,) = entry
        module, _, name = factory.partition(":")
        made: Backend = getattr(importlib.import_module(module), name)()
        if made.device_type != device_type:
            raise errors.InternalError(
                None, None, f"{factory} is registered for {device_type}, not {made.device_type}"
            )
        found = _LOADED.setdefault(device_type, made)
    return found


def device_types() -> Set[str]:
    """Return the registered types of devices, the host's first."""
    return dict.fromkeys(_FACTORIES).keys()


# as text, so that nothing of the device is imported before a session asks for it
register_backend(HOST, "tfjit.kernels.cpu.backend:CpuBackend")
register_backend("GPU", "tfjit.kernels.cuda.backend:CudaBackend")

__all__ = [
    "HOST",
    "Backend",
    "FusionRules",
    "Template",
    "backend_for",
    "device_types",
    "register_backend",
    "unregister_backend",
]
