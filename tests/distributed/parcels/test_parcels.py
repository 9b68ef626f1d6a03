"""Values travel beside their messages."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tfjit import protos
from tfjit.distributed.parcels.parcels import Parcel
from tfjit.framework import errors

VALUES = {
    "large": np.arange(1000, dtype=np.float64).reshape(10, 100),
    "small": np.arange(3, dtype=np.int32),
    "scalar": np.array(2.5, np.float32),
    "empty": np.empty((0, 5), np.float32),
    "strided": np.arange(400, dtype=np.int64).reshape(20, 20)[::2, ::3],
    "strings": np.array([b"x" * 100, b""], object),
    "bfloat16": np.ones((7, 9), ml_dtypes.bfloat16),
    "bool": np.arange(100) % 3 == 0,
}


@pytest.mark.parametrize("name", VALUES)
def test_values(name: str) -> None:
    value = VALUES[name]
    parcel = Parcel(protos.NamedTensorProto())
    parcel.fill(parcel.message.tensor, value)
    wire = parcel.message.SerializeToString()
    assert len(wire) < 300
    arrived = Parcel(protos.NamedTensorProto.FromString(wire), parcel.arrays)
    got = arrived.value(arrived.message.tensor)
    assert got.dtype == value.dtype and got.shape == value.shape
    assert got.tolist() == value.tolist()
    assert bool(parcel.arrays) == (name in ("large", "strided", "bfloat16", "bool"))


@pytest.mark.parametrize("damage", ["no array", "position", "size", "shape", "dtype"])
def test_what_does_not_fit(damage: str) -> None:
    parcel = Parcel(protos.TensorProto())
    parcel.fill(parcel.message, np.ones((10, 10), np.float32))
    if damage == "no array":
        parcel.arrays.clear()
    elif damage == "position":
        parcel.message.version_number = -1
    elif damage == "size":
        parcel.arrays[0] = parcel.arrays[0][:-1]
    elif damage == "shape":
        parcel.message.tensor_shape.dim[0].size = -10
    else:
        parcel.message.dtype = protos.DataType.Value("DT_STRING")
    with pytest.raises(errors.InvalidArgumentError):
        parcel.value(parcel.message)
