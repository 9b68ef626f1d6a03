"""Exchange arrays of a device with other libraries by DLPack capsules.

NumPy reads capsules of host memory alone, so the structures are declared here.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from tfjit.framework.types.dtypes import DType

CPU: Final = 1
CUDA: Final = 2
CUDA_MANAGED: Final = 13
DEVICES: Final = {
    CPU: "host memory",
    CUDA: "CUDA device",
    3: "page-locked host memory of CUDA device",
    CUDA_MANAGED: "managed memory of CUDA device",
    10: "ROCm device",
}
"""Names of the kinds of memory that errors speak of."""
_KINDS: Final = {"i": 0, "u": 1, "f": 2, "bfloat": 4, "c": 5, "b": 6}
_NAME: Final = b"dltensor"
_USED: Final = b"used_dltensor"


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _Managed(ctypes.Structure):
    _fields_ = (
        ("tensor", _Tensor),
        ("manager", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    )


_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_Destructor = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)


def _of_python(name: str, result: type, *arguments: type) -> Callable[..., Any]:
    """Return a function of Python's C interface that takes capsules as addresses.

    A capsule that is being destroyed has no references left, so it is never made an object again.
    """
    made = ctypes.PYFUNCTYPE(result, *arguments)
    return made((name, ctypes.pythonapi))


_new = _of_python("PyCapsule_New", ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, _Destructor)
_is_valid = _of_python("PyCapsule_IsValid", ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)
_pointer = _of_python("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)
_rename = _of_python("PyCapsule_SetName", ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)

_exported: dict[int, tuple[_Managed, object, object]] = {}
"""Structures in use by others, with the owners of their memory, by address."""


@_Deleter
def _delete(address: int) -> None:
    """Let go of an exported array; its consumer is done."""
    _exported.pop(address, None)


@_Destructor
def _destroy(capsule: int) -> None:
    """Let go of the array of a capsule that is not consumed."""
    if _is_valid(capsule, _NAME):
        _exported.pop(_pointer(capsule, _NAME), None)


def type_of(dtype: DType) -> tuple[int, int]:
    """Return code and bits of a dtype."""
    kind = "bfloat" if dtype.name == "bfloat16" else np.dtype(dtype.as_numpy_dtype).kind
    return _KINDS[kind], 8 * dtype.size


def capsule_of(
    address: int,
    shape: Sequence[int],
    dtype: tuple[int, int],
    device: tuple[int, int],
    owner: object,
) -> object:
    """Return a capsule of contiguous memory.

    dtype: code and bits. device: kind and number. owner: lives until the consumer is done.
    """
    sizes = (ctypes.c_int64 * max(len(shape), 1))(*shape)
    managed = _Managed()
    tensor = managed.tensor
    tensor.data, tensor.ndim = address, len(shape)
    tensor.device_type, tensor.device_id = device
    tensor.code, tensor.bits, tensor.lanes = (*dtype, 1)
    tensor.shape = ctypes.cast(sizes, ctypes.POINTER(ctypes.c_int64))
    managed.deleter = ctypes.cast(_delete, ctypes.c_void_p)
    place = ctypes.addressof(managed)
    _exported[place] = managed, sizes, owner
    return _new(place, _NAME, _destroy)


@dataclass(frozen=True, slots=True)
class ConsumedArray:
    """An array of another library.

    dtype: code and bits. device: kind and number. strides: in elements; None where it is
    contiguous. owner: keeps the memory.
    """

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    dtype: tuple[int, int]
    device: tuple[int, int]
    owner: object


class _Owner:
    """Keep a consumed capsule's memory until the end of its life."""

    __slots__ = ("_address", "_deleter")

    def __init__(self, address: int, deleter: int | None) -> None:
        self._address, self._deleter = address, deleter

    def __del__(self) -> None:
        if self._deleter:
            _Deleter(self._deleter)(self._address)


def consume(capsule: object) -> ConsumedArray:
    """Return the array of a capsule, which is used up.

    Raises ValueError for an object that is no unused capsule, and for vector types.
    """
    place = id(capsule)
    if type(capsule).__name__ != "PyCapsule" or not _is_valid(place, _NAME):
        raise ValueError(f"__dlpack__ gave no unused DLPack capsule, but {capsule!r}")
    address = _pointer(place, _NAME)
    managed = _Managed.from_address(address)
    _rename(place, _USED)
    owner = _Owner(address, managed.deleter)
    tensor = managed.tensor
    if tensor.lanes != 1:
        raise ValueError(f"an array of vectors of {tensor.lanes} elements is no tensor")
    rank = tensor.ndim
    return ConsumedArray(
        (tensor.data or 0) + tensor.byte_offset,
        tuple(tensor.shape[:rank]),
        tuple(tensor.strides[:rank]) if tensor.strides else None,
        (tensor.code, tensor.bits),
        (tensor.device_type, tensor.device_id),
        owner,
    )


__all__ = [
    "CPU", "CUDA", "CUDA_MANAGED", "DEVICES", "ConsumedArray", "capsule_of", "consume", "type_of",
]  # fmt: skip
