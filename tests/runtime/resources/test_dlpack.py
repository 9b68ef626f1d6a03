"""DLPack capsules, with NumPy as the other library."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

from tfjit.framework.types.dtypes import as_dtype
from tfjit.runtime.resources import dlpack


class Owner:
    """Exports an array of the host."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __dlpack_device__(self) -> tuple[int, int]:
        return dlpack.CPU, 0

    def __dlpack__(self, **_: Any) -> object:
        array = self.array
        dtype = dlpack.type_of(as_dtype(array.dtype))
        return dlpack.capsule_of(array.ctypes.data, array.shape, dtype, (dlpack.CPU, 0), self)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "c8", "c16", "i1", "i8", "u2", "?"])
@pytest.mark.parametrize("shape", [(), (0, 3), (2, 3, 5)])
def test_numpy_reads_capsules(dtype: str, shape: tuple[int, ...]) -> None:
    array = np.ones(shape, dtype)
    found = np.from_dlpack(Owner(array))
    assert found.dtype == array.dtype and found.shape == shape
    np.testing.assert_array_equal(found, array)
    if array.size:
        assert np.shares_memory(found, array)


def test_the_owner_lives_as_long_as_the_consumer() -> None:
    owner = Owner(np.arange(4.0))
    alive = weakref.ref(owner)
    found = np.from_dlpack(owner)
    capsule = owner.__dlpack__()
    del owner
    assert alive() is not None
    del found
    assert alive() is not None
    del capsule  # which nobody has consumed
    assert alive() is None
    assert not dlpack._exported


def test_consumed_arrays() -> None:
    array = np.arange(30, dtype=np.int16).reshape(5, 6)[1:, ::2]
    found = dlpack.consume(array.__dlpack__())
    assert found.address == array.ctypes.data
    assert (found.shape, found.strides) == ((4, 3), (6, 2))
    assert (found.dtype, found.device) == ((0, 16), (dlpack.CPU, 0))


def test_a_consumed_array_keeps_its_memory() -> None:
    owner = Owner(np.arange(4.0))
    alive = weakref.ref(owner)
    capsule = owner.__dlpack__()
    found = dlpack.consume(capsule)
    del owner, capsule
    gc.collect()
    assert alive() is not None
    with pytest.raises(ValueError, match="no unused DLPack capsule"):
        dlpack.consume(Owner)
    del found
    assert alive() is None


def test_a_capsule_is_used_once() -> None:
    capsule = np.ones(3).__dlpack__()
    dlpack.consume(capsule)
    with pytest.raises(ValueError, match="no unused DLPack capsule"):
        dlpack.consume(capsule)
