"""Call cuDNN through ctypes: descriptors with attributes, and handles.

Numbers and signatures are those of cudnn_graph.h of version 9. Descriptors need no device and no
driver, but for execution.
"""

from __future__ import annotations

import ctypes
import os
import weakref
from collections.abc import Mapping
from ctypes import (
    POINTER,
    byref,
    c_bool,
    c_char_p,
    c_double,
    c_float,
    c_int,
    c_int64,
    c_size_t,
    c_void_p,
)
from typing import Final, NamedTuple

from tfjit.kernels.cuda.libraries import library_files
from tfjit.kernels.cuda.libraries.device_libraries import LibraryFailure
from tfjit.kernels.cuda.libraries.library_files import MissingLibrary

OLDEST: Final = 90800
"""Descriptors of devices (CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR) came with 9.8."""
_Handle = POINTER(c_void_p)
_SIGNATURES: Final[Mapping[str, tuple[type, ...]]] = {
    "cudnnCreate": (_Handle,),
    "cudnnDestroy": (c_void_p,),
    "cudnnSetStream": (c_void_p, c_void_p),
    "cudnnBackendCreateDescriptor": (c_int, _Handle),
    "cudnnBackendDestroyDescriptor": (c_void_p,),
    "cudnnBackendFinalize": (c_void_p,),
    "cudnnBackendSetAttribute": (c_void_p, c_int, c_int, c_int64, c_void_p),
    "cudnnBackendGetAttribute": (c_void_p, c_int, c_int, c_int64, POINTER(c_int64), c_void_p),
    "cudnnBackendExecute": (c_void_p, c_void_p, c_void_p),
    "cudnnGetErrorString": (c_int,),
    "cudnnGetLastErrorString": (c_char_p, c_size_t),
}

# cudnnBackendAttributeType_t -> the C type of one element
_ELEMENTS: Final = {
    0: c_void_p,  # handle
    1: c_int,  # data type
    2: c_bool,
    3: c_int64,
    4: c_float,
    5: c_double,
    6: c_void_p,  # device pointer
    7: c_int,  # convolution mode
    8: c_int,  # heuristic mode
    10: c_int,  # NaN propagation
    11: c_int,  # numerical note
    14: c_int,  # pointwise mode
    15: c_void_p,  # descriptor
}

# cudnnBackendDescriptorType_t
POINTWISE: Final = 0
CONVOLUTION: Final = 1
ENGINE: Final = 2
ENGINE_CONFIG: Final = 3
HEURISTICS: Final = 4
PLAN: Final = 5
FORWARD: Final = 10
FILTER_GRADIENT: Final = 11
INPUT_GRADIENT: Final = 12
POINTWISE_OPERATION: Final = 13
GRAPH: Final = 15
VARIANT_PACK: Final = 16
TENSOR: Final = 17
DEVICE: Final = 38


class Attribute(NamedTuple):
    """The number of an attribute (cudnnBackendAttributeName_t) and the type of its elements."""

    number: int
    kind: int


POINTWISE_MODE: Final = Attribute(0, 14)
POINTWISE_PRECISION: Final = Attribute(1, 1)
POINTWISE_NAN: Final = Attribute(2, 10)
CONVOLUTION_PRECISION: Final = Attribute(100, 1)
CONVOLUTION_MODE: Final = Attribute(101, 7)
CONVOLUTION_DILATIONS: Final = Attribute(102, 3)
CONVOLUTION_STRIDES: Final = Attribute(103, 3)
CONVOLUTION_AFTER: Final = Attribute(104, 3)
CONVOLUTION_BEFORE: Final = Attribute(105, 3)
CONVOLUTION_RANK: Final = Attribute(106, 3)
HEURISTICS_MODE: Final = Attribute(200, 8)
HEURISTICS_GRAPH: Final = Attribute(201, 15)
HEURISTICS_RESULTS: Final = Attribute(202, 15)
HEURISTICS_DEVICE: Final = Attribute(204, 15)
CONFIG_ENGINE: Final = Attribute(300, 15)
PLAN_HANDLE: Final = Attribute(400, 0)
PLAN_CONFIG: Final = Attribute(401, 15)
PLAN_WORKSPACE: Final = Attribute(402, 3)
PLAN_DEVICE: Final = Attribute(407, 15)
OPERATION_POINTWISE: Final = Attribute(750, 15)
OPERATION_POINTWISE_X: Final = Attribute(751, 15)
OPERATION_POINTWISE_B: Final = Attribute(752, 15)
OPERATION_POINTWISE_Y: Final = Attribute(753, 15)
GRAPH_HANDLE: Final = Attribute(800, 0)
GRAPH_OPERATIONS: Final = Attribute(801, 15)
TENSOR_ALIGNMENT: Final = Attribute(900, 3)
TENSOR_TYPE: Final = Attribute(901, 1)
TENSOR_SIZES: Final = Attribute(902, 3)
TENSOR_STRIDES: Final = Attribute(903, 3)
TENSOR_ID: Final = Attribute(906, 3)
TENSOR_IS_VIRTUAL: Final = Attribute(907, 2)
PACK_IDS: Final = Attribute(1000, 3)
PACK_ADDRESSES: Final = Attribute(1001, 6)
PACK_WORKSPACE: Final = Attribute(1003, 6)
ENGINE_NUMBER: Final = Attribute(1301, 3)
ENGINE_NOTES: Final = Attribute(1303, 11)
DEVICE_HANDLE: Final = Attribute(2701, 0)

FIRST_OF_OPERATION: Final[Mapping[int, int]] = {
    FORWARD: 700,
    INPUT_GRADIENT: 706,
    FILTER_GRADIENT: 712,
}
"""The first attribute of each operation of a convolution.

In order: alpha and beta (float, or double for doubles), convolution, filter, images, results.
"""

# cudnnDataType_t
DATA_TYPES: Final[Mapping[str, int]] = {"float32": 0, "float64": 1, "float16": 2, "bfloat16": 9}
CROSS_CORRELATION: Final = 1
ADD: Final = 0
RELU: Final = 100
PROPAGATE_NAN: Final = 1
# cudnnBackendHeurMode_t
BY_RULES: Final = 3
FALLBACK: Final = 2
# cudnnBackendNumericalNote_t
TENSOR_CORES: Final = 0
NARROWED_INPUTS: Final = 1
NARROWED_SUMS: Final = 2
NONDETERMINISTIC: Final = 4


def _destroy(functions: ctypes.CDLL, address: int, process: int) -> None:
    # in a forked child, code and memory of plans are the parent's
    if os.getpid() == process:
        functions.cudnnBackendDestroyDescriptor(address)


class CudnnFunctions:
    """The functions of a loaded libcudnn.

    version: 92801 is 9.28.1.
    """

    def __init__(self, functions: ctypes.CDLL) -> None:
        """Declare the signatures of a loaded library.

        Raises MissingLibrary for one that is too old or lacks a function.
        """
        self.functions = functions
        functions.cudnnGetVersion.restype = c_size_t
        self.version = int(functions.cudnnGetVersion())
        if self.version < OLDEST:
            raise MissingLibrary(f"version {self.version} is older than {OLDEST}")
        library_files.declare(functions, _SIGNATURES)
        functions.cudnnGetErrorString.restype = c_char_p
        functions.cudnnGetLastErrorString.restype = None

    def call(self, name: str, *arguments: object) -> None:
        """Call a function. Raises LibraryFailure with status and reason."""
        status = getattr(self.functions, name)(*arguments)
        if status:
            raise LibraryFailure(f"{name}: {self._describe(status)}")

    def _describe(self, status: int) -> str:
        text = ctypes.create_string_buffer(1024)
        self.functions.cudnnGetLastErrorString(text, len(text))
        known: bytes = self.functions.cudnnGetErrorString(status) or b"status"
        reason = text.value.decode(errors="replace").strip()
        return f"{known.decode()} ({status}){f': {reason}' if reason else ''}"


class Descriptor:
    """One descriptor of the backend API, which is destroyed with this object.

    Descriptors that it was given as attributes are kept alive.
    """

    def __init__(self, cudnn: CudnnFunctions, kind: int) -> None:
        """Create a descriptor of a kind (cudnnBackendDescriptorType_t). Raises LibraryFailure."""
        self._cudnn = cudnn
        self._kept: list[Descriptor] = []
        made = c_void_p()
        cudnn.call("cudnnBackendCreateDescriptor", kind, byref(made))
        assert made.value is not None
        self.address: int = made.value
        destroy = weakref.finalize(self, _destroy, cudnn.functions, made.value, os.getpid())
        destroy.atexit = False

    def set(self, attribute: Attribute, *values: object) -> Descriptor:
        """Set the elements of an attribute; return this descriptor. Raises LibraryFailure."""
        plain = [value.address if isinstance(value, Descriptor) else value for value in values]
        self._kept += [value for value in values if isinstance(value, Descriptor)]
        # ctypes checks the elements
        elements = (_ELEMENTS[attribute.kind] * len(plain))(*plain)  # type: ignore[misc]
        self._cudnn.call(
            "cudnnBackendSetAttribute",
            *(self.address, *attribute, len(plain), ctypes.addressof(elements)),
        )
        return self

    def finalize(self) -> Descriptor:
        """Check the attributes and fix them; return this descriptor. Raises LibraryFailure."""
        self._cudnn.call("cudnnBackendFinalize", self.address)
        return self

    def get(self, attribute: Attribute, most: int = 1) -> list[int]:
        """Return up to `most` elements of an attribute of numbers. Raises LibraryFailure."""
        elements = (_ELEMENTS[attribute.kind] * most)()
        count = self._read(attribute, most, ctypes.addressof(elements))
        return list(elements)[:count]

    def get_descriptors(self, attribute: Attribute, kind: int, most: int) -> list[Descriptor]:
        """Return up to `most` descriptors of an attribute.

        kind: of each. Raises LibraryFailure.
        """
        count = min(most, self._read(attribute, 0, None))
        made = [Descriptor(self._cudnn, kind) for _ in range(count)]
        elements = (c_void_p * max(count, 1))(*[one.address for one in made])
        if not count:
            return []
        return made[: self._read(attribute, count, ctypes.addressof(elements))]

    def _read(self, attribute: Attribute, most: int, elements: int | None) -> int:
        """Read elements and return their number.

        For `most` 0, it is the number of all.
        """
        count = c_int64()
        self._cudnn.call(
            "cudnnBackendGetAttribute",
            *(self.address, *attribute, most, byref(count), elements),
        )
        return count.value


__all__ = ["Attribute", "CudnnFunctions", "Descriptor"]
