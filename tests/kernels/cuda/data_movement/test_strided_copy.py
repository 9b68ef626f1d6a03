"""Tests of strided copies over simulated threads, and of their PTX."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.cuda.harness import ARCHITECTURES, call_ptx, run_call
from tfjit.framework.types.dtypes import as_dtype
from tfjit.kernels.cpu.data_movement.strided_copy import Layout, View
from tfjit.kernels.cuda.data_movement.strided_copy import copy_launch
from tfjit.kernels.registry import NativeCall, Pointer, TensorSpec


def copied(source: np.ndarray, view: np.ndarray, layout: Layout) -> NativeCall:
    """The call that makes a contiguous array of a view."""
    size = source.dtype.itemsize
    shape = view.shape
    strides = np.empty(shape, source.dtype).strides
    launch = copy_launch(
        size, layout.view(view), View(shape, strides), Pointer("in"), Pointer("out")
    )
    return NativeCall((launch,) if launch is not None else ())


CASES = {
    "whole": lambda a: a,
    "transposed": lambda a: a.transpose(1, 0, 2),
    "turned": lambda a: a.transpose(2, 1, 0),
    "reversed": lambda a: a[:, ::-1],
    "part": lambda a: a[1:, 2:5, 1:3],
    "steps": lambda a: a[:, ::2, ::3],
    "one": lambda a: a[1:2, 1:2, 1:2],
    "none": lambda a: a[:0],
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32", "float64", "complex128"])
def test_views(case: str, dtype: str) -> None:
    source = np.arange(3 * 9 * 12).reshape(3, 9, 12).astype(dtype)
    layout = Layout(source.shape, source.dtype.itemsize)
    call = copied(source, CASES[case](layout.array), layout)
    expected = CASES[case](source)
    outputs = [TensorSpec(as_dtype(source.dtype), expected.shape)]
    (found,), _ = run_call(call, [source], outputs)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("shape", [(40, 33), (8, 100), (2, 70, 9)])
def test_tiles(shape: tuple[int, ...]) -> None:
    source = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    layout = Layout(shape, 4)
    view = np.swapaxes(layout.array, -1, -2)
    call = copied(source, view, layout)
    assert "shared_u32" in call.launches[0].source.text
    expected = np.swapaxes(source, -1, -2)
    (found,), _ = run_call(call, [source], [TensorSpec(as_dtype("float32"), expected.shape)])
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("count", [1, 3, 16, 37])
@pytest.mark.parametrize("dtype", ["uint8", "float32", "int64"])
def test_fill(count: int, dtype: str) -> None:
    source = np.array(7, dtype)
    layout = Layout((), source.dtype.itemsize)
    call = copied(source, np.broadcast_to(layout.array, (count,)), layout)
    (found,), _ = run_call(call, [source], [TensorSpec(as_dtype(dtype), (count,))])
    np.testing.assert_array_equal(found, np.full(count, 7, dtype))


def test_contiguous_rows_move_in_16_bytes() -> None:
    source = np.zeros((64, 64), np.float32)
    layout = Layout(source.shape, 4)
    for ptx in call_ptx(copied(source, layout.array[8:, 4:60], layout)).values():
        assert "ld.global.nc.v4" in ptx and "st.global.v4" in ptx
    assert len(ARCHITECTURES) == 3


def test_tiles_in_ptx() -> None:
    source = np.zeros((64, 64), np.float32)
    layout = Layout(source.shape, 4)
    for ptx in call_ptx(copied(source, layout.array.T, layout)).values():
        assert "bar.sync" in ptx and "ld.shared" in ptx and "st.shared" in ptx
