"""Take arrays of other libraries as tensors of an accelerator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tfjit.runtime.resources.device_tensor import DTYPES, DeviceTensor

if TYPE_CHECKING:
    from tfjit.framework.types.dtypes import DType
    from tfjit.kernels.ir.accelerator import Accelerator


ForeignArray = Any
"""An array of a library that the process may lack."""
_CPU: Final = 1  # of DLPack
_MANAGED: Final = (2, 13)  # a CUDA device reaches managed memory


def is_of_device(value: object) -> bool:
    """Return whether a value says that it is not in host memory.

    Arrays of NumPy are, and so are objects with neither protocol.
    """
    if isinstance(value, DeviceTensor):
        return True
    kind = type(value)
    if isinstance(value, (np.ndarray, np.generic)):
        return False
    if hasattr(kind, "__dlpack_device__"):
        return bool(value.__dlpack_device__()[0] != _CPU)  # type: ignore[attr-defined]
    return hasattr(value, "__cuda_array_interface__")


def receive(
    value: ForeignArray, accelerators: Sequence[Accelerator], dtype: DType, name: str
) -> DeviceTensor:
    """Return an array of a device as a tensor of an accelerator.

    Nothing is copied. name: of the fed tensor, for messages. Raises TypeError for another dtype,
    ValueError for another device, and for elements that are not contiguous.
    """
    if isinstance(value, DeviceTensor):
        if value.accelerator not in accelerators:
            raise _elsewhere(repr(value), accelerators, name)
        _check_dtype(value.dtype.name, dtype, name)
        return value
    if hasattr(type(value), "__dlpack_device__"):
        return _from_dlpack(value, accelerators, dtype, name)
    return _from_interface(value, accelerators, dtype, name)


def _from_dlpack(
    value: ForeignArray, accelerators: Sequence[Accelerator], dtype: DType, name: str
) -> DeviceTensor:
    from tfjit.runtime.resources import dlpack  # few processes need it

    found = tuple(value.__dlpack_device__())
    accelerator = next((a for a in accelerators if _is_on(a, found)), None)
    if accelerator is None:
        kind = dlpack.DEVICES.get(found[0], f"DLPack's device type {found[0]}")
        raise _elsewhere(f"an array in {kind} {found[1]}", accelerators, name)
    if dtype.name not in DTYPES:
        raise _not_on_devices(dtype, name)
    stream = accelerator.stream_handle
    # the producer lets our queue wait for its own
    capsule = value.__dlpack__(stream=stream) if stream else value.__dlpack__()
    array = dlpack.consume(capsule)
    if array.dtype != dlpack.type_of(dtype):
        code, bits = array.dtype
        _check_dtype(_dlpack_name(code, bits), dtype, name)
    _check_strides(array.shape, array.strides, name)
    return DeviceTensor(accelerator, dtype, array.shape, array.address, array.owner)


def _is_on(accelerator: Accelerator, found: tuple[int, ...]) -> bool:
    kind, number = accelerator.memory_kind
    return found == (kind, number) or (kind, found[0]) == _MANAGED


def _from_interface(
    value: ForeignArray, accelerators: Sequence[Accelerator], dtype: DType, name: str
) -> DeviceTensor:
    interface = value.__cuda_array_interface__
    address = interface["data"][0]
    accelerator = next((a for a in accelerators if a.holds(address)), None)
    if interface.get("mask") is not None:
        raise ValueError(f"Cannot feed a masked array for Tensor {name}")
    shape = tuple(interface["shape"])
    if accelerator is None and 0 not in shape:
        raise _elsewhere(f"memory at {address:#x}", accelerators, name)
    accelerator = accelerator or accelerators[0]  # an empty array has no address
    if dtype.name not in DTYPES:
        raise _not_on_devices(dtype, name)
    found = np.dtype(interface["typestr"])
    if dtype.name == "bfloat16" or found != np.dtype(dtype.as_numpy_dtype):
        _check_dtype(found.name, dtype, name)
    strides = interface.get("strides")
    if strides is not None:
        strides = tuple(-1 if s % found.itemsize else s // found.itemsize for s in strides)
    _check_strides(shape, strides, name)
    if interface.get("stream") is not None:
        accelerator.wait_for(int(interface["stream"]))
    return DeviceTensor(accelerator, dtype, shape, address, value)


def _check_dtype(found: str, dtype: DType, name: str) -> None:
    if found != dtype.name:
        raise TypeError(
            f"Cannot feed an array of dtype {found} for Tensor {name}, which has dtype "
            f"{dtype.name}: arrays in device memory are not converted"
        )


def _check_strides(shape: Sequence[int], strides: Sequence[int] | None, name: str) -> None:
    """Raise ValueError where elements are not in C order without gaps."""
    if strides is None or 0 in shape:
        return
    expected = 1
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size > 1 and stride != expected:
            raise ValueError(
                f"Cannot feed an array in device memory with strides {list(strides)} for Tensor "
                f"{name}: its {list(shape)} elements have to be contiguous, in C order"
            )
        expected *= size


def _dlpack_name(code: int, bits: int) -> str:
    names = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 5: "complex"}
    return "bool" if code == 6 else f"{names.get(code, f'DLPack type {code}, ')}{bits}"


def _elsewhere(found: str, accelerators: Sequence[Accelerator], name: str) -> ValueError:
    own = ", ".join(f"{a.name} {a.number}" for a in accelerators)
    return ValueError(
        f"Cannot feed {found} for Tensor {name}: the session computes on {own or 'the host alone'}"
    )


def _not_on_devices(dtype: DType, name: str) -> TypeError:
    return TypeError(
        f"Cannot feed an array in device memory for Tensor {name}: tensors of dtype {dtype.name} "
        "are in host memory"
    )


__all__ = ["ForeignArray", "is_of_device", "receive"]
