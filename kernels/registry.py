"""Map op types to compiled launches and NumPy references.

A native builder and a reference kernel are registered under the op type. Both see a `NodeSpec`. A
builder is called once a node and shape, while a plan is built. So it may be slow (milliseconds),
pack constants and choose between templates.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeVar

import numpy as np

from tfjit.framework.op_defs.op_registry import registry as op_registry
from tfjit.framework.op_defs.op_traits import SIZED_BY_VALUES
from tfjit.kernels.float_control import flushed
from tfjit.kernels.source import KernelSource

if TYPE_CHECKING:
    from tfjit.framework.types.dtypes import DType


class Unsupported(Exception):
    """A builder has no compiled form for this node.

    The text gives the reason, which `explain` shows.
    """


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """The dtype (never a ref dtype) and static shape of one tensor.

    Buffers are C-contiguous unless a builder is told otherwise.
    """

    dtype: DType
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Return the number of elements."""
        n = 1
        for d in self.shape:
            n *= d
        return n

    @property
    def nbytes(self) -> int:
        """Return the bytes of a contiguous buffer."""
        return self.size * self.dtype.size


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """The properties of a node that a kernel may depend on.

    attrs: Python values (see framework/op_defs/attrs.py): DType, TensorShape, bytes, int, float,
        bool, ndarray, tuples of them.
    constants: inputs with a value known while planning, by input index. They are also ordinary
        inputs.
    inputs: a reference or resource input is given as the dtype and shape of its variable. The
        kernel's pointer is the variable's own buffer, which it may update in place. A reference
        output is that variable and has no separate buffer.
    state: the node's persistent bytes in this session (see `initial_state`), None for stateless
        nodes and while building.
    """

    name: str
    op: str
    attrs: Mapping[str, Any]
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    constants: Mapping[int, np.ndarray] = field(default_factory=dict)
    state: np.ndarray | None = None

    def has_trait(self, traits: int) -> bool:
        """Tell whether the op has one of these traits (op_traits.py)."""
        return op_registry.has_trait(self.op, traits)


@dataclass(frozen=True, slots=True)
class Pointer:
    """A word of an argument block that is an address.

    The address is known when the step is laid out. kind: "in"/"out" (index: input/output of the
    node), "temp" (index into NativeCall.temp_bytes), "const" (index into NativeCall.constants),
    "code" (source + entry: address of another compiled function), "state" (the node's persistent
    bytes in the session, made by its `initial_state`), "cancel" (an int64 that is not 0 once the
    run is to stop), "rows" (the rows of a `BoundedCall`'s outputs, which is a number and no
    address). entries, number: where the entry depends on a size (symbolic_size.py), all entries,
    and the formula of the one to call.
    """

    kind: Literal["in", "out", "temp", "const", "code", "state", "cancel", "rows"]
    index: int = 0
    offset: int = 0
    source: KernelSource | None = None
    entry: str = ""
    entries: tuple[str, ...] = ()
    number: Any = None


Word = int | Pointer


@dataclass(frozen=True, slots=True)
class Launch:
    """One call of compiled code: `entry(args, chunk, nchunks)` for each chunk.

    words: argument block from word 2 on (0 and 1 are status and detail). chunks: the number of
    chunks that the work may usefully be cut into; 1 = never cut. cost_ns: predicted time on one
    thread. errors: status code -> (exception class name in framework.errors, message with
    {detail}); empty = cannot fail. fills: the temporary that the launch computes from the node's
    inputs alone, and that the call's other launches only read; None for other launches.
    """

    source: KernelSource
    words: tuple[Word, ...]
    entry: str = "kernel"
    chunks: int = 1
    cost_ns: float = 1000.0
    errors: Mapping[int, tuple[str, str]] = field(default_factory=dict)
    fills: int | None = None


class LibraryProblem(Protocol):
    """The sizes, dtypes and options of a function of a vendor's library.

    Problems are hashable: an accelerator prepares equal ones once. library: its name. title: a few
    words for `explain`.
    """

    @property
    def library(self) -> str: ...

    @property
    def title(self) -> str: ...


@dataclass(frozen=True, slots=True)
class LibraryLaunch:
    """One call of a function of a vendor's library.

    words: addresses in the order that the problem defines. workspace: the temporary of the form
    that the function may use; its size in the form is the most, and the routine tells the actual
    one.
    """

    problem: LibraryProblem
    words: tuple[Word, ...]
    workspace: int | None = None


@dataclass(frozen=True, slots=True)
class LibraryForm:
    """The launches of a call with routines of a vendor's library.

    temp_bytes, constants: of these launches, as those of a `NativeCall`.
    """

    launches: tuple[Launch | LibraryLaunch, ...]
    temp_bytes: tuple[int, ...] = ()
    constants: tuple[np.ndarray, ...] = ()


@dataclass(frozen=True, slots=True)
class NativeCall:
    """The compiled form of one node: launches and their buffers.

    in_place: (output index, input index) pairs for which the output may be written over the dying
        input's buffer (same byte size, and element i of the output needs that input at element i
        only).
    temp_bytes: sizes of scratch buffers (64-byte aligned).
    constants: arrays made while planning (packed weights, tables), kept alive with the plan, never
        written.
    bytes_moved, flops: for `explain` and the cost model.
    stream_blocks: blocks by which the runtime moves the node's random stream on, for launches on
        accelerators, which only read its position.
    library_forms: instead of the launches, the preferred first; for accelerators, which take the
        first form that their libraries have routines for.
    """

    launches: tuple[Launch, ...]
    in_place: tuple[tuple[int, int], ...] = ()
    temp_bytes: tuple[int, ...] = ()
    constants: tuple[np.ndarray, ...] = ()
    bytes_moved: int = 0
    flops: int = 0
    stream_blocks: int = 0
    library_forms: tuple[LibraryForm, ...] = ()

    def sources(self) -> tuple[KernelSource, ...]:
        """Return every KernelSource of the call, in order, without repeats."""
        found: dict[KernelSource, None] = {}
        for launch in self.launches:
            found[launch.source] = None
            for word in launch.words:
                if isinstance(word, Pointer) and word.source is not None:
                    found[word.source] = None
        return tuple(found)


@dataclass(frozen=True, slots=True)
class BoundedCall:
    """The compiled form of a node sized by values.

    launch: runs as one chunk, and leaves the number of rows in use as its detail; a negative one,
    or a status, for input values that are an error, which the reference reports. outputs: dtypes
    and largest shapes. counted: the outputs of which only the rows in use count, by number.
    temp_bytes: sizes of scratch buffers. rows: reads the number of the outputs' rows from the
    inputs, where no largest one is known; negative for an error.
    """

    launch: Launch
    outputs: tuple[TensorSpec, ...]
    counted: tuple[int, ...]
    temp_bytes: tuple[int, ...] = ()
    rows: Callable[[Sequence[np.ndarray]], int] | None = None


Builder = Callable[[NodeSpec], NativeCall]
BoundedBuilder = Callable[[NodeSpec], BoundedCall]
# inputs and outputs in the op's order; ndarray (or other edge values for non-numeric types)
Reference = Callable[[NodeSpec, Sequence[np.ndarray]], Sequence[np.ndarray]]

# The node's persistent bytes, as a session first makes them (a random stream's key and counter,
# say).
InitialState = Callable[[NodeSpec], np.ndarray]

_T = TypeVar("_T")

_BUILDERS: dict[str, Builder] = {}
_BOUNDED: dict[str, BoundedBuilder] = {}
_REFERENCES: dict[str, Reference] = {}
_INITIAL_STATES: dict[str, InitialState] = {}
_LOADED: Final[set[str]] = set()  # families whose references are imported


def _register(table: dict[str, _T], kind: str, op_types: tuple[str, ...]) -> Callable[[_T], _T]:
    """Return a decorator that adds a function to a table.

    Raises ValueError for a second one.
    """

    def register(added: _T) -> _T:
        for op_type in op_types:
            if op_type in table:
                raise ValueError(f"two {kind} for {op_type}")
            table[op_type] = added
        return added

    return register


def native(*op_types: str) -> Callable[[Builder], Builder]:
    """Register the builder of compiled launches for op types."""
    return _register(_BUILDERS, "native builders", op_types)


def bounded(*op_types: str) -> Callable[[BoundedBuilder], BoundedBuilder]:
    """Register the bounded builder of ops with the trait SIZED_BY_VALUES.

    It sees a NodeSpec without outputs, and raises Unsupported where it has no compiled form.
    """
    return _register(_BOUNDED, "bounded builders", op_types)


def reference(*op_types: str) -> Callable[[Reference], Reference]:
    """Register the NumPy kernel for op types.

    It may be given NodeSpecs without known output shapes (empty `outputs`). Denormals are flushed
    while it runs, as in compiled code: a value does not depend on the kernel that computed it.
    """

    def register(kernel: Reference) -> Reference:
        for op_type in op_types:
            if op_type in _REFERENCES:
                raise ValueError(f"two reference kernels for {op_type}")
            _REFERENCES[op_type] = flushed(kernel)
        return kernel

    return register


def initial_state(*op_types: str) -> Callable[[InitialState], InitialState]:
    """Register the function that makes an op's persistent state.

    The op is stateful but resource-free (random streams); the function is called once a session and
    node. The native call sees the state as Pointer("state"), the reference kernel as
    NodeSpec.state; both advance the same bytes.
    """

    return _register(_INITIAL_STATES, "initial states", op_types)


def unregister(op_type: str) -> None:
    """Forget the kernels of an op type that a user registered."""
    for table in (_BUILDERS, _REFERENCES, _INITIAL_STATES):
        table.pop(op_type, None)


def find_initial_state(op_type: str) -> InitialState | None:
    """Return the maker of an op type's persistent state, or None."""
    if op_type not in _INITIAL_STATES:
        _load_references(op_type)
    return _INITIAL_STATES.get(op_type)


def find_native(op_type: str) -> Builder | None:
    """Return the builder of an op type, or None.

    The first call imports the builders, which a first result does not need.
    """
    found = _BUILDERS.get(op_type)
    if found is None:
        importlib.import_module("tfjit.kernels.cpu.builders")
        found = _BUILDERS.get(op_type)
    return found


def find_bounded(op_type: str) -> BoundedBuilder | None:
    """Return the bounded builder of an op type, or None.

    The first call for an op with the trait SIZED_BY_VALUES imports the builders.
    """
    if not op_registry.has_trait(op_type, SIZED_BY_VALUES):
        return None
    importlib.import_module("tfjit.kernels.cpu.builders")
    return _BOUNDED.get(op_type)


def has_builders() -> bool:
    """Return whether builders have been imported, which takes 0.15 s."""
    return bool(_BUILDERS)


def find_reference(op_type: str) -> Reference | None:
    """Return the reference kernel of an op type, or None."""
    found = _REFERENCES.get(op_type)
    if found is None:
        _load_references(op_type)
        found = _REFERENCES.get(op_type)
    return found


def _load_references(op_type: str) -> None:
    """Import the references of the op type's family, once.

    The references of all families cost more than a small graph.
    """
    family = op_type if op_type in ("_Fused", "_Loop") else op_registry.family_name(op_type)
    if family and family not in _LOADED:
        importlib.import_module("tfjit.kernels.cpu.reference").load(family)
        _LOADED.add(family)


def reference_types() -> Iterable[str]:
    """Return every op type with a reference, of all families."""
    importlib.import_module("tfjit.kernels.cpu.reference").load_all()
    return _REFERENCES.keys()
