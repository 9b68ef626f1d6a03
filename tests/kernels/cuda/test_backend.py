"""Tests of the GPU's backend: sessions' devices, the ops that it computes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from tests.kernels.groups import GroupBuilder
from tests.simulated_gpu import simulated_gpu
from tfjit.framework import errors
from tfjit.framework.types import dtypes
from tfjit.kernels.cuda.backend import CudaBackend
from tfjit.kernels.cuda.device.visible_devices import VisibleDevice
from tfjit.kernels.cuda.template.launches import CudaLaunch
from tfjit.protos import ConfigProto, GPUOptions

pytestmark = pytest.mark.simulator


@pytest.fixture
def backend() -> Iterator[CudaBackend]:
    with simulated_gpu():
        yield CudaBackend()


def test_devices_of_sessions(backend: CudaBackend) -> None:
    assert backend.device_count(None) == backend.device_count(ConfigProto()) == 1
    assert backend.device_count(ConfigProto(device_count={"GPU": 0})) == 0
    assert backend.memory_limit(0) > 0
    assert backend.describe(0).startswith("device: 0, name: simulated GPU")
    assert backend.accelerator(0) is backend.accelerator(0)


def test_each_virtual_device_has_its_memory_limit(backend: CudaBackend) -> None:
    limits = GPUOptions.Experimental.VirtualDevices(memory_limit_mb=[64, 128])
    options = GPUOptions(experimental=GPUOptions.Experimental(virtual_devices=[limits]))
    assert backend.device_count(ConfigProto(gpu_options=options)) == 2
    found = [backend.accelerator(number).memory_limit for number in range(2)]
    assert found == [64 << 20, 128 << 20]


def test_one_number_is_one_card_in_a_process(backend: CudaBackend) -> None:
    backend.device_count(None)
    backend._devices[0] = VisibleDevice(1, 0)
    with pytest.raises(errors.AlreadyExistsError, match="being mapped to multiple devices"):
        backend.device_count(None)


def test_a_faulty_list_is_an_error(backend: CudaBackend) -> None:
    config = ConfigProto(gpu_options=GPUOptions(visible_device_list="3"))
    with pytest.raises(errors.InvalidArgumentError, match="invalid GPU id '3'"):
        backend.device_count(config)


def test_shape_arithmetic_is_the_hosts(backend: CudaBackend) -> None:
    f32, i32, flag = dtypes.float32, dtypes.int32, dtypes.bool
    assert backend.computes("AddV2", (f32, f32, f32))
    assert not backend.computes("AddV2", (i32, i32, i32))
    assert not backend.computes("Less", (i32, i32, flag))
    assert backend.computes("Cast", (i32, f32))
    assert backend.has_kernel("AddV2", (i32, i32, i32))
    assert backend.has_kernel("RandomUniform", (i32, f32))
    assert not backend.has_kernel("StringToNumber", (f32,))


def test_variables_of_strings_are_the_hosts(backend: CudaBackend) -> None:
    assert backend.has_kernel("VariableV2", (dtypes.float32,))
    assert not backend.has_kernel("VariableV2", (dtypes.string,))
    assert not backend.has_kernel("ReadVariableOp", (dtypes.resource, dtypes.string))


def test_random_numbers_with_a_draw(backend: CudaBackend) -> None:
    f16, f32, i32, i64 = dtypes.float16, dtypes.float32, dtypes.int32, dtypes.int64
    assert backend.computes("RandomUniform", (i32, f32))
    assert backend.computes("StatelessTruncatedNormalV2", (i32, i64, i64, i32, f32))
    assert backend.computes("RandomUniformInt", (i32, i32, i32, i32))
    for op in ("RandomUniform", "StatelessRandomUniform"):
        assert not backend.computes(op, (i32, f16))
        assert backend.has_kernel(op, (i32, f16))


def test_members_of_a_group_keep_their_grids(backend: CudaBackend) -> None:
    b = GroupBuilder(np.ones((300, 300), np.float32), np.ones((300, 300), np.float32))
    group = b.group(b.op("Neg", b.op("AddV2", b.input(0), b.input(1))))
    first, second = backend.member_call(group, {}, backend.native_call).launches
    assert isinstance(first, CudaLaunch) and isinstance(second, CudaLaunch)
    assert min(first.grid[0], second.grid[0]) > 1


def test_types_without_a_form_are_the_hosts(backend: CudaBackend) -> None:
    """The passes know it, before a builder refuses the node in a run."""
    f16, f32, i32 = dtypes.float16, dtypes.float32, dtypes.int32
    for op in ("UnsortedSegmentSum", "SparseTensorDenseMatMul"):
        assert backend.computes(op, (f32, i32, i32, f32))
        assert not backend.computes(op, (f16, i32, i32, f16))
        assert backend.has_kernel(op, (f16, i32, i32, f16))
