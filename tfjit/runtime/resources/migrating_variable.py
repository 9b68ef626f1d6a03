"""Variables with a value that moves between host and accelerator."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import numpy as np

from tfjit.framework.types.shape import Shape
from tfjit.runtime.host.fork_safety import release_lock, watch
from tfjit.runtime.resources.device_allocation import AllocatedTensor, allocating
from tfjit.runtime.resources.variables_and_resources import Variable

if TYPE_CHECKING:
    from tfjit.framework.types.dtypes import DType
    from tfjit.kernels.ir.accelerator import Accelerator


class MigratingVariable(Variable):
    """A variable of an accelerator.

    The newest value is in device memory, in host memory, or in both. Programs of the device ask
    for its address. All other code sees `value`, an array of the host that is brought up to date
    when it is asked for; since that code may write into the array, the device's copy counts as
    stale from then on. Steps of the host keep addresses of arrays: when the device has written
    or has a copy, they look again (`VARIABLE_EPOCH`).
    """

    __slots__ = (
        "_accelerator",
        "_address",
        "_device",
        "_host",
        "_moves",
        "_on_device",
        "_on_host",
        "_shape",
    )

    def __init__(
        self,
        accelerator: Accelerator,
        container: str,
        name: str,
        dtype: DType,
        shape: Shape,
        is_resource: bool = False,
        device: str = "",
    ) -> None:
        """Make an uninitialised variable of `accelerator`. device: its full name."""
        self._accelerator, self._device = accelerator, device
        self._moves = threading.RLock()
        self._host: np.ndarray | None = None
        self._address = 0
        self._shape: tuple[int, ...] = ()
        self._on_host = self._on_device = False  # places of the newest value
        super().__init__(container, name, dtype, shape, is_resource)
        watch(self)

    @property
    def value(self) -> np.ndarray | None:
        """Return the value in host memory, or None.

        The caller may write into the array.
        """
        with self._moves:
            if self._on_device and not self._on_host:
                host = self._host
                if host is None or host.shape != self._shape:
                    host = np.empty(self._shape, self.dtype.as_numpy_dtype)
                    super()._replaced(host)
                    self._host = host
                self._accelerator.read(host, self._address)
                self._on_host = True
            if self._on_host:
                self._on_device = False
            return self._host

    @value.setter
    def value(self, array: np.ndarray | None) -> None:
        with self._moves:
            self._host = array
            self._on_host = array is not None
            self._on_device = False
            if array is None:
                self._free()

    @property
    def value_shape(self) -> tuple[int, ...] | None:
        with self._moves:
            if self._on_host and self._host is not None:
                return self._host.shape
            return self._shape if self._on_device else None

    def assign(self, value: np.ndarray, *, take: bool = False) -> np.ndarray:
        with self._moves:
            found = super().assign(value, take=take)
            self._on_host, self._on_device = True, False
            return found

    def device_address(self, shape: tuple[int, ...], initializes: bool) -> int:
        """Return the address of the device's copy, which is up to date.

        shape: of the value. initializes: the program assigns before it reads, so a variable without
        a value gets memory. Raises FailedPreconditionError for one without a value, otherwise, and
        ResourceExhaustedError.
        """
        with self._moves:
            if not initializes and self.value_shape is None:
                self.initialized_value()
            if self._address and self._shape != shape:
                _ = self.value  # kept in host memory
                self._free()
            if not self._address:
                count = int(np.prod(shape, dtype=np.int64)) * self.dtype.size
                tensor = AllocatedTensor(shape, self.dtype, self.name)
                with allocating(tensor, self._accelerator, self._device):
                    self._address = self._accelerator.allocate(max(count, 1))
                self._shape = shape
            host = self._host
            is_newer = self._on_host and not self._on_device
            if is_newer and host is not None and host.shape == shape:
                self._accelerator.write(self._address, np.ascontiguousarray(host))
                super()._replaced(host)  # steps that write into the array ask for it again
                self._on_device = True
            return self._address

    def written_on_device(self) -> None:
        """Note that a program of the device has written the value."""
        with self._moves:
            if self._on_host:
                super()._replaced(None)
            self._on_device, self._on_host = True, False

    def after_fork(self) -> None:
        """Free the lock: a run in the child raises its error."""
        release_lock(self._moves)

    def _free(self) -> None:
        address, self._address = self._address, 0
        self._on_device = False
        if address:
            self._accelerator.free(address)

    def __del__(self) -> None:
        if self._address:
            self._accelerator.free(self._address)


__all__ = ["MigratingVariable"]
