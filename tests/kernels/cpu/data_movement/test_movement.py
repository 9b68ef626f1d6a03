"""Ops that move elements, against their reference kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tfjit.kernels.cpu  # noqa: F401  (registers every kernel)
from tests.kernels.against_reference import RNG, check, values
from tests.kernels.launching import KernelError, run_native, tensor
from tfjit.framework.errors import InvalidArgumentError
from tfjit.framework.types import dtypes as d
from tfjit.kernels.registry import NodeSpec, TensorSpec, find_native, find_reference


def ints(*numbers: Any) -> np.ndarray:
    return np.array(
        numbers[0] if len(numbers) == 1 and isinstance(numbers[0], (list, int)) else numbers,
        np.int32,
    )


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (0, 2, 1), (1, 0, 2), (2, 0, 1)])
@pytest.mark.parametrize("shape", [(2, 3, 5), (70, 33, 19), (1, 40, 1), (0, 2, 3), (64, 64, 64)])
def test_transpose(shape: tuple[int, ...], order: tuple[int, ...]) -> None:
    check("Transpose", values(*shape), ints(*order), nchunks=3)


@pytest.mark.parametrize("dtype", ["uint8", "float16", "float64", "complex128", "bool"])
def test_transpose_of_every_size(dtype: str) -> None:
    check("Transpose", values(33, 20, dtype=dtype), ints(1, 0))


def test_transpose_of_a_scalar() -> None:
    check("Transpose", np.float32(3), np.zeros(0, np.int32))


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_concat(axis: int) -> None:
    shapes = [[2, 3, 5] for _ in range(3)]
    for k, shape in enumerate(shapes):
        shape[axis] = k * 3 + (k > 0)
    check("ConcatV2", *(values(*s) for s in shapes), np.int32(axis), N=3)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_pack_and_unpack(axis: int) -> None:
    check("Pack", *(values(2, 20) for _ in range(3)), axis=axis, N=3)
    check("Unpack", values(2, 3, 4), axis=axis, num=[2, 3, 4][axis])
    check("Pack", np.float32(1), np.float32(2), axis=0, N=2)


def test_split() -> None:
    check("Split", np.int32(1), values(3, 12, 5), num_split=4)
    check("SplitV", values(3, 12, 5), np.array([2, 0, 10], np.int64), np.int32(1), num_split=3)


def test_slice() -> None:
    check("Slice", values(5, 6, 70), ints(1, 2, 3), ints(3, -1, 60))
    check("Slice", values(5, 6), ints(1, 2), ints(0, 4))


@pytest.mark.parametrize("dtype", ["float32", "float16", "complex64", "bool", "complex128"])
@pytest.mark.parametrize(
    ("begin", "size"),
    [
        ([1, 2, 3], [3, 2, 60]),
        ([4, 0, 0], [1, 6, 70]),
        ([0, 5, 0], [5, 1, 70]),
        ([2, 3, 69], [2, 3, 1]),
        ([0, 0, 0], [5, 6, 70]),
    ],
)
def test_slice_that_begins_anywhere(begin: list[int], size: list[int], dtype: str) -> None:
    check("Slice", values(5, 6, 70, dtype=dtype), ints(begin), ints(size), late=(1,))


@pytest.mark.parametrize("begin", [[-1, 0], [0, 4], [6, 0], [3, 0], [0, 7], [-(2**31), 2**31 - 1]])
@pytest.mark.parametrize("index", ["int32", "int64"])
def test_slice_that_begins_out_of_bounds(begin: list[int], index: str) -> None:
    x, place, size = values(5, 6), np.array(begin, index), np.array([3, 3], index)
    reference, builder = find_reference("Slice"), find_native("Slice")
    assert reference is not None
    assert builder is not None
    spec = NodeSpec(
        "node",
        "Slice",
        {},
        tuple(map(tensor, (x, place, size))),
        (TensorSpec(d.float32, (3, 3)),),
        {2: size},
    )
    with pytest.raises(InvalidArgumentError) as wanted:
        reference(spec, [x, place, size])
    with pytest.raises(KernelError) as found:
        run_native(builder(spec), [x, place, size], spec.outputs)
    assert found.value.args[1] == wanted.value.message


@pytest.mark.parametrize(
    ("begin", "end", "masks"),
    [
        ([2], [3], {"shrink_axis_mask": 1}),
        ([-1, 4], [0, 5], {"shrink_axis_mask": 3}),
        ([0, 5], [0, 6], {"begin_mask": 1, "end_mask": 1, "shrink_axis_mask": 2}),
    ],
)
def test_gradient_of_an_index(begin: list[int], end: list[int], masks: dict[str, int]) -> None:
    (y,) = check(
        "StridedSlice",
        values(5, 6, 3),
        ints(begin),
        ints(end),
        ints([1] * len(begin)),
        late=(1, 2),
        **masks,
    )
    check(
        "StridedSliceGrad",
        ints(5, 6, 3),
        ints(begin),
        ints(end),
        ints([1] * len(begin)),
        values(*y.shape),
        late=(1, 2),
        **masks,
    )


@pytest.mark.parametrize(
    ("begin", "end", "strides", "masks"),
    [
        ([1, 0], [4, 6], [2, 1], {}),
        ([4, -1], [0, 0], [-1, -2], {}),
        ([0, 1], [0, 5], [1, 1], {"begin_mask": 1, "end_mask": 1}),
        ([2, 0], [3, 6], [1, 3], {"shrink_axis_mask": 1}),
        ([0, 0, 1], [0, 0, 3], [1, 1, 1], {"ellipsis_mask": 1, "new_axis_mask": 2}),
        ([4, 0], [1, 6], [1, 1], {}),
    ],
)
def test_strided_slice(
    begin: list[int], end: list[int], strides: list[int], masks: dict[str, int]
) -> None:
    x = values(5, 6)
    (y,) = check("StridedSlice", x, ints(begin), ints(end), ints(strides), **masks)
    check(
        "StridedSliceGrad",
        ints(5, 6),
        ints(begin),
        ints(end),
        ints(strides),
        values(*y.shape),
        **masks,
    )


@pytest.mark.parametrize(
    "pads", [[(1, 2), (0, 0), (3, 1)], [(0, 0), (0, 0), (0, 0)], [(0, 1), (2, 0), (0, 0)]]
)
def test_pad(pads: list[tuple[int, int]]) -> None:
    x = values(2, 3, 20)
    check("Pad", x, ints(pads), nchunks=2)
    check("PadV2", x, ints(pads), np.float32(-1.5))
    for mode in (b"REFLECT", b"SYMMETRIC"):
        check("MirrorPad", values(4, 5, 6), ints(pads), mode=mode)


def test_pad_of_an_empty_tensor() -> None:
    check("Pad", values(0, 3), ints([(1, 1), (0, 2)]))


@pytest.mark.parametrize("counts", [(2, 3), (1, 4), (5, 1), (0, 2)])
def test_tile(counts: tuple[int, int]) -> None:
    check("Tile", values(3, 17), ints(*counts))
    check("Tile", values(1, 1), ints(*counts))


def test_broadcast_fill_and_like() -> None:
    check("BroadcastTo", values(3, 1), ints(2, 3, 40))
    check("Fill", ints(3, 50), np.float64(2.5))
    check("ZerosLike", values(7, 9))
    check("OnesLike", values(7, 9, dtype="int64"))
    check("OnesLike", values(7, dtype="bool"))


def test_reverse() -> None:
    check("ReverseV2", values(3, 4, 50), ints([0, 2]))
    check("ReverseV2", values(3, 4, 50), ints([1]))


def test_depth_and_space() -> None:
    check("SpaceToDepth", values(2, 4, 6, 3), block_size=2, data_format=b"NHWC")
    check("DepthToSpace", values(2, 2, 3, 12), block_size=2, data_format=b"NHWC")


@pytest.mark.parametrize("blocks", [(2, 3), (1, 2), (3, 1)])
@pytest.mark.parametrize("pads", [[(0, 0), (0, 0)], [(1, 1), (2, 1)], [(2, 0), (0, 3)]])
def test_space_to_batch_and_back(blocks: tuple[int, int], pads: list[tuple[int, int]]) -> None:
    sizes = [6 - sum(pads[0]) % 6, 12 - sum(pads[1]) % 12]
    x = values(2, *sizes, 5)
    (y,) = check("SpaceToBatchND", x, ints(list(blocks)), ints(pads))
    (z,) = check("BatchToSpaceND", y, ints(list(blocks)), ints(pads))
    np.testing.assert_array_equal(x, z)
    check("SpaceToBatch", values(1, 4, 6, 3), ints([(0, 0), (1, 1)]), block_size=2)
    check("BatchToSpace", values(8, 2, 4, 3), ints([(0, 0), (1, 1)]), block_size=2)


@pytest.mark.parametrize(
    ("shift", "axis"), [([1], [0]), ([-2, 3], [0, 1]), ([0], [1]), ([7, 1], [1, 1])]
)
def test_roll(shift: list[int], axis: list[int]) -> None:
    check("Roll", values(4, 30), ints(shift), ints(axis))


@pytest.mark.parametrize("op", ["Cumsum", "Cumprod"])
@pytest.mark.parametrize("axis", [0, 1, 2, -1])
@pytest.mark.parametrize(
    ("exclusive", "reverse"), [(False, False), (True, False), (False, True), (True, True)]
)
def test_running_sums(op: str, axis: int, exclusive: bool, reverse: bool) -> None:
    for x in (values(3, 4, 50), values(3, 1, 5, dtype="int32"), values(2, 70, 1), values(3, 3, 7)):
        check(op, x % 3, np.int32(axis), exclusive=exclusive, reverse=reverse, nchunks=2)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize(
    ("exclusive", "reverse"), [(False, False), (True, False), (False, True), (True, True)]
)
def test_running_log_sum_exp(axis: int, exclusive: bool, reverse: bool) -> None:
    x = RNG.standard_normal((3, 5, 30)).astype(np.float32) * 20
    x[0, 1, 2], x[1, 2, 3], x[2, 0], x[2, 4, 5] = np.inf, -np.inf, -np.inf, np.nan
    outputs = (TensorSpec(d.float32, x.shape),)
    attrs = {"exclusive": exclusive, "reverse": reverse}
    spec = NodeSpec(
        "node",
        "CumulativeLogsumexp",
        attrs,
        (tensor(x), tensor(ints(axis))),
        outputs,
        {1: ints(axis)},
    )
    builder, plain = find_native(spec.op), find_reference(spec.op)
    assert builder is not None
    assert plain is not None
    with np.errstate(invalid="ignore"):
        wanted = plain(spec, [x, np.int32(axis)])[0]
    np.testing.assert_allclose(
        run_native(builder(spec), [x, ints(axis)], outputs, nchunks=2)[0],
        wanted,
        rtol=1e-5,
        atol=1e-5,
    )


def test_copies() -> None:
    check("Identity", values(3, 50))
    check("Reshape", values(6, 5), ints(2, 15))
    check("Bitcast", values(6, 5), T=d.float32, type=d.int32)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("index_dtype", ["int32", "int64"])
def test_gather(axis: int, index_dtype: str) -> None:
    params = values(4, 5, 30)
    indices = RNG.integers(0, params.shape[axis], (3, 2)).astype(index_dtype)
    check("GatherV2", params, indices, np.int32(axis), batch_dims=0, nchunks=2)
    check("GatherV2", params, indices.reshape(-1)[0], np.int32(axis), batch_dims=0)


def test_gather_from_resource_variables() -> None:
    index = RNG.integers(0, 4, (4, 2)).astype(np.int32)
    check("ResourceGather", values(4, 5, 30), index)
    check("ResourceGather", values(4, 5, 30), index, batch_dims=1)
    check("ResourceGatherNd", values(4, 5, 30), index)


def test_gather_with_batches() -> None:
    check(
        "GatherV2",
        values(4, 5, 6),
        RNG.integers(0, 6, (4, 3)).astype(np.int32),
        np.int32(2),
        batch_dims=1,
    )
    check(
        "GatherV2",
        values(4, 5, 60),
        RNG.integers(0, 5, (4, 3)).astype(np.int32),
        np.int32(1),
        batch_dims=1,
    )


@pytest.mark.parametrize(
    "indices", [np.array([[0, 1], [7, 9]]), np.array([0, -3]), np.array(7), np.array([5])]
)
def test_gather_out_of_range_says_what_the_reference_says(indices: np.ndarray) -> None:
    params = values(5, 20)
    inputs = (params, indices.astype(np.int64), np.int32(0))
    specs = tuple(tensor(np.asarray(a)) for a in inputs)
    spec = NodeSpec(
        "node",
        "GatherV2",
        {"batch_dims": 0},
        specs,
        (TensorSpec(d.float32, (*indices.shape, 20)),),
        {2: np.int32(0)},
    )
    builder, reference = find_native("GatherV2"), find_reference("GatherV2")
    assert builder is not None
    assert reference is not None
    with pytest.raises(InvalidArgumentError) as wanted:
        reference(spec, inputs)
    with pytest.raises(KernelError) as caught:
        run_native(builder(spec), [np.asarray(a) for a in inputs], spec.outputs)
    assert caught.value.args == ("InvalidArgumentError", wanted.value.message)


@pytest.mark.parametrize("axis", [-1, 0, 1])
def test_one_hot(axis: int) -> None:
    indices = np.array([[0, 3, -1], [6, 2, 7]], np.int64)
    check("OneHot", indices, np.int32(7), np.float32(2), np.float32(-1), axis=axis)
    check("OneHot", np.array(2, np.int32), np.int32(5), np.int64(1), np.int64(0), axis=-1)
