"""Runtime kernels: those that need the session or the step.

They serve variables, queues, sends and prints. All other ops are computed in `tfjit.kernels`.

A runtime kernel is a function `(ctx: OpContext, inputs) -> outputs`. A blocking one is registered
as asynchronous: it gets a `done` callback instead and must never hold a thread while it waits.

Values on an edge: ndarray, or an object of one of the classes here and in `resources` (a reference
edge carries the `Variable` itself, a resource edge a `ResourceHandle`), or `DEAD`. A variant scalar
is the object in it (a `TensorList`, None for an empty one), a variant of another shape an array of
objects.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from tfjit.framework import errors
from tfjit.framework.op_defs.op_registry import registry
from tfjit.framework.op_defs.op_traits import CALLS_PYTHON
from tfjit.runtime.host.completion import Done, Values

if TYPE_CHECKING:
    from tfjit.framework.types.dtypes import DType
    from tfjit.framework.types.shape import Shape
    from tfjit.passes.ir.dataflow_graph import Node
    from tfjit.runtime.host.cancellation import CancellationManager
    from tfjit.runtime.host.device import Device
    from tfjit.runtime.host.rendezvous import Rendezvous
    from tfjit.runtime.resources.variables_and_resources import SessionState


class _Dead:
    """The value of an edge whose producer did not run.

    An example is the untaken side of a Switch.
    """

    def __repr__(self) -> str:
        return "DEAD"


DEAD: Final = _Dead()


NO_VALUE: Final = object()
"""A result that no `_Retval` node has given yet.

None would be a variant's value.
"""


@dataclass(slots=True)
class StepContext:
    """The state of one `run` call: its id, rendezvous and cancellation.

    host: the session, for kernels that run bodies of functions. as_arrays: fetched values stay as
    they are on edges, scalars and handles too: the run is one of a body. watch: asked before each
    iteration of a loop that Python runs; it may raise to leave the step. unfinished: waits for work
    of devices, which the end of the run makes; None has kernels wait themselves.
    """

    step_id: int
    cancellation: CancellationManager
    rendezvous: Rendezvous
    collector: Any = None  # StepStatsCollector while tracing
    call_frame: Sequence[Any] = ()  # values of the _Arg nodes, by index
    return_values: list[Any] = field(default_factory=list)  # filled by the _Retval nodes, by index
    host: Any = None
    as_arrays: bool = False
    watch: Callable[[], None] | None = None
    unfinished: list[Callable[[], None]] | None = None


@dataclass(slots=True)
class OpContext:
    """A runtime kernel's view of its node and surroundings.

    attrs: Python values. output_dtypes/output_shapes: as inferred, shapes in internal form. frame:
    "frame:iteration" part of a rendezvous key ("0:0" outside loops). is_dead: a receive that will
    not be sent a live value.
    """

    name: str
    op: str
    attrs: Mapping[str, Any]
    device: Device
    session: SessionState
    step: StepContext
    input_dtypes: tuple[DType, ...] = ()
    output_dtypes: tuple[DType, ...] = ()
    output_shapes: tuple[Shape, ...] = ()
    frame: str = "0:0"
    is_dead: bool = False


SyncKernel = Callable[[OpContext, Values], Values]
AsyncKernel = Callable[[OpContext, Values, Done], None]


@dataclass(frozen=True, slots=True)
class RuntimeKernel:
    """A registered runtime kernel.

    compute: the function. blocking: it takes a `done` callback and may wait. expensive: a separate
    thread runs it, since it may take long or wait for another kernel of the step.
    """

    compute: Callable[..., Any]
    blocking: bool = False
    expensive: bool = False


# node -> the kernel that serves it and no other node
KernelMaker = Callable[["Node"], RuntimeKernel]


_loaded: Final[set[str]] = set()  # families whose kernels are imported
_KERNELS: dict[str, RuntimeKernel] = {}
_MAKERS: dict[str, KernelMaker] = {}
VARIANT_OPS: Final = frozenset(
    {"AddN", "DeserializeSparse", "SerializeManySparse", "SerializeSparse", "ZerosLike"}
)
"""Ops with a runtime kernel for variants alone."""
_VARIANT_KERNELS: dict[str, RuntimeKernel] = {}


def runtime_kernel(*op_types: str, expensive: bool = False) -> Callable[[SyncKernel], SyncKernel]:
    """Register a kernel that returns its outputs at once."""

    def register(compute: SyncKernel) -> SyncKernel:
        for op_type in op_types:
            _add(op_type, RuntimeKernel(compute, expensive=expensive))
        return compute

    return register


def blocking_kernel(*op_types: str) -> Callable[[AsyncKernel], AsyncKernel]:
    """Register a kernel that calls `done` later.

    The kernel calls `done(outputs)` or `done(exception)` when it can, from any thread, exactly
    once.
    """

    def register(compute: AsyncKernel) -> AsyncKernel:
        for op_type in op_types:
            _add(op_type, RuntimeKernel(compute, blocking=True))
        return compute

    return register


def awaited(kernel: AsyncKernel) -> SyncKernel:
    """Return the kernel for callers that may wait on their own thread.

    An interrupt cancels the step, so that nothing is done for it later.
    """

    def compute(ctx: OpContext, inputs: Sequence[object]) -> Sequence[object]:
        results: list[Sequence[object] | BaseException] = []
        waiting: list[threading.Lock] = []

        # `done` looks for a waiting caller behind its result, and the caller for a result behind
        # its lock: one of them sees the other's.
        def done(result: Sequence[object] | BaseException) -> None:
            results.append(result)
            if waiting:
                waiting[0].release()

        kernel(ctx, inputs, done)
        if not results:
            over = threading.Lock()
            over.acquire()
            waiting.append(over)
            try:
                if not results:
                    over.acquire()
            except BaseException:
                ctx.step.cancellation.cancel()
                raise
        result = results.pop()
        if not isinstance(result, BaseException):
            return result
        try:
            raise result
        finally:
            del result  # its traceback has this frame

    return compute


def kernel_maker(*op_types: str) -> Callable[[KernelMaker], KernelMaker]:
    """Register a function that makes a kernel for each node.

    Such kernels keep state of their node, such as the plans of its bodies.
    """

    def register(make: KernelMaker) -> KernelMaker:
        for op_type in op_types:
            if op_type in _MAKERS or op_type in _KERNELS:
                raise errors.InternalError(None, None, f"two runtime kernels for {op_type}")
            _MAKERS[op_type] = make
        return make

    return register


def variant_kernel(*op_types: str) -> Callable[[SyncKernel], SyncKernel]:
    """Register a kernel of an op for variants alone."""

    def register(compute: SyncKernel) -> SyncKernel:
        for op_type in op_types:
            assert op_type in VARIANT_OPS
            _VARIANT_KERNELS[op_type] = RuntimeKernel(compute)
        return compute

    return register


def _add(op_type: str, kernel: RuntimeKernel) -> None:
    if op_type in _KERNELS:
        raise errors.InternalError(None, None, f"two runtime kernels for {op_type}")
    _KERNELS[op_type] = kernel


def _load(op_type: str) -> None:
    """Import the modules that register the kernels of the op type's family."""
    _load_family(registry.family_name(op_type))


def _load_family(family: str) -> None:
    # import_module of a loaded module takes a microsecond, and every node asks
    if family not in _loaded:
        importlib.import_module("tfjit.runtime.op_kernels").load(family)
        _loaded.add(family)


def find_runtime_kernel(node: Node) -> RuntimeKernel | None:
    """Return the runtime kernel of a node, or None."""
    _load(node.op)
    if node.op in VARIANT_OPS and node.has_variant:
        _load_family("variants")
        return _VARIANT_KERNELS[node.op]
    if node.op == "_Offload":
        _load_family("offload")
    maker = _MAKERS.get(node.op)
    return maker(node) if maker is not None else _KERNELS.get(node.op)


def has_runtime_kernel(op_type: str) -> bool:
    """Return whether any node of that type has a runtime kernel."""
    _load(op_type)
    return op_type in _KERNELS or op_type in _MAKERS or op_type in VARIANT_OPS


def starts_stage(op_type: str) -> bool:
    """Return whether such a node may split a run into stages.

    The reasons are waiting and the user's Python.
    """
    return is_blocking(op_type) or registry.has_trait(op_type, CALLS_PYTHON)


def is_blocking(op_type: str) -> bool:
    """Return whether nodes of that type may wait for others.

    Of a node that runs functions, its kernel tells whether these may wait.
    """
    _load(op_type)
    kernel = _KERNELS.get(op_type)
    return kernel is not None and kernel.blocking
