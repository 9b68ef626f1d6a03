"""Hold tensors in the memory of an accelerator between runs."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Final

import numpy as np

from tfjit.framework.types.dtypes import as_dtype

if TYPE_CHECKING:
    from tfjit.framework.types.dtypes import DType
    from tfjit.kernels.ir.accelerator import Accelerator

DTYPES: Final = frozenset(
    {
        *("float16", "bfloat16", "float32", "float64", "complex64", "complex128"),
        *("bool", "int8", "uint8", "int16", "uint16", "int64"),
    }
)
"""Types of device tensors, as in TensorFlow.

Those of 32-bit integers are in host memory.
"""


class DeviceMemory:
    """Memory of an accelerator, which is freed with this object.

    It is given back behind the commands that are queued by then. is_shared: another library has
    seen it, and may use it in another queue.
    """

    __slots__ = ("_accelerator", "address", "is_shared")

    def __init__(self, accelerator: Accelerator, nbytes: int) -> None:
        """Allocate. Raises ResourceExhaustedError."""
        self.address = 0
        self.is_shared = False
        self._accelerator = accelerator
        self.address = accelerator.allocate(max(nbytes, 1))

    def __del__(self) -> None:
        if self.address:
            free = self._accelerator.free_shared if self.is_shared else self._accelerator.free
            free(self.address)


class DeviceTensor:
    """A tensor in the memory of an accelerator.

    The elements are contiguous and stay as they are: no run writes into a tensor that it was fed,
    and each run fetches into new memory. Other libraries take it by DLPack and by
    `__cuda_array_interface__`, without a copy; `numpy()` copies. It stays valid when its session is
    closed.

    dtype: a tfjit dtype. shape: a tuple. owner: keeps the memory. is_borrowed: the memory is that
    of another library.
    """

    __slots__ = (
        "__weakref__",
        "_accelerator",
        "_address",
        "_owner",
        "dtype",
        "is_borrowed",
        "shape",
    )

    def __init__(
        self,
        accelerator: Accelerator,
        dtype: DType,
        shape: Sequence[int],
        address: int | None = None,
        owner: object = None,
    ) -> None:
        """Allocate memory, or describe an owner's at an address.

        Raises ResourceExhaustedError.
        """
        self._accelerator = accelerator
        self.dtype = as_dtype(dtype).base_dtype
        self.shape = tuple(shape)
        self.is_borrowed = address is not None
        self._owner = DeviceMemory(accelerator, self.nbytes) if address is None else owner
        self._address = self._owner.address if isinstance(self._owner, DeviceMemory) else address

    @classmethod
    def of_array(cls, accelerator: Accelerator, array: np.ndarray) -> DeviceTensor:
        """Return a copy of a host array."""
        made = cls(accelerator, as_dtype(array.dtype), array.shape)
        if array.nbytes:
            accelerator.write(made.address, np.ascontiguousarray(array))
        return made

    @property
    def accelerator(self) -> Accelerator:
        """The device of the memory."""
        return self._accelerator

    @property
    def address(self) -> int:
        """The place of the first element."""
        return self._address or 0

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        """The number of bytes."""
        return self.size * self.dtype.size

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a tensor without axes")
        return self.shape[0]

    def __repr__(self) -> str:
        return (
            f"<DeviceTensor: {self.dtype.name}{list(self.shape)} on "
            f"{self._accelerator.name} {self._accelerator.number}>"
        )

    def numpy(self) -> np.ndarray:
        """Return a copy in host memory.

        Waits for the run that computes it. Raises InternalError where that has failed.
        """
        made = np.empty(self.shape, self.dtype.as_numpy_dtype)
        if made.nbytes:
            self._accelerator.read(made, self.address)
        return made

    def __array__(self, dtype: np.dtype | None = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise ValueError("a tensor in device memory cannot be an array without a copy")
        made = self.numpy()
        return made if dtype is None else made.astype(dtype, copy=False)

    # for other libraries

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._accelerator.memory_kind

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object:
        """Return a capsule that keeps the memory.

        stream: the consumer's, which then waits for this tensor's run; None is the default one, and
        -1 asks for no wait. Raises BufferError for a device that the tensor is not on.
        """
        from tfjit.runtime.resources import dlpack  # a run without other libraries needs none of it

        if dl_device is not None and tuple(dl_device) != self.__dlpack_device__():
            if dl_device[0] != dlpack.CPU or copy is False:
                raise BufferError(f"{self!r} cannot be exported to device {tuple(dl_device)}")
            return self.numpy().__dlpack__(max_version=max_version)
        tensor = self
        if copy:
            tensor = DeviceTensor(self._accelerator, self.dtype, self.shape)
            self._accelerator.copy(tensor.address, self.address, self.nbytes)
        tensor._share(1 if stream is None else stream)
        return dlpack.capsule_of(
            tensor.address,
            self.shape,
            dlpack.type_of(self.dtype),
            self.__dlpack_device__(),
            tensor._owner,
        )

    @property
    def __cuda_array_interface__(self) -> dict[str, object]:
        """Describe the memory, by version 3 of the interface.

        Raises AttributeError for bfloat16, which it has no name for.
        """
        if self.dtype.name == "bfloat16":
            raise AttributeError("__cuda_array_interface__ has no name for bfloat16")
        self._share(-1)  # the consumer waits for the stream that is named here
        return {
            "shape": self.shape,
            "typestr": np.dtype(self.dtype.as_numpy_dtype).str,
            "data": (self.address if self.size else 0, False),
            "strides": None,
            "version": 3,
            "stream": self._accelerator.stream_handle or None,
        }

    def _share(self, stream: int) -> None:
        if isinstance(self._owner, DeviceMemory):
            self._owner.is_shared = True
        if stream != -1:
            self._accelerator.hold_back(stream)


__all__ = ["DTYPES", "DeviceMemory", "DeviceTensor"]
