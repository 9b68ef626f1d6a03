"""Transformations that put elements together, and take them apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from tfjit.client.data.sparse_spec import SparseTensorSpec
from tfjit.client.datasets.dataset_base import DatasetBase, counted, order
from tfjit.client.datasets.elements import (
    DatasetSpec,
    Spec,
    check_first_sizes,
    flat_shapes,
    flatten,
    map_structure,
    pack,
    parameters,
    reshaped,
    to_tensors,
)
from tfjit.client.datasets.traced_function import TracedFunction
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.graphs.static_value import get_static_value
from tfjit.framework.graphs.tensor_spec import TensorSpec
from tfjit.framework.types import dtypes as dt
from tfjit.framework.types.shape import Shape, TensorShape
from tfjit.ops.core.apply import tensor
from tfjit.ops.core.convert import convert_to_tensor

if TYPE_CHECKING:
    from tfjit.client.datasets.dataset import Dataset
    from tfjit.framework.graphs.typing import Structure, TensorLike


class Batches(DatasetBase):
    """The methods that make batches and windows, and undo them."""

    def batch(
        self,
        batch_size: TensorLike,
        drop_remainder: TensorLike = False,
        num_parallel_calls: TensorLike | None = None,
        deterministic: bool | None = None,
        name: str | None = None,
    ) -> Dataset:
        """Return batches of `batch_size` elements, stacked along a new first axis.

        drop_remainder: leave a smaller last batch out. num_parallel_calls: batches that are
        made at the same time. deterministic: False lets batches come in the order in which they are
        ready.
        """
        size, drops = counted(batch_size, "batch_size"), _drops(drop_remainder)
        known = _known_size(size, drops)
        spec = reshaped(self.element_spec, lambda dims: _with_first(known, dims), "batch")
        if num_parallel_calls is None:
            return self._then("BatchDatasetV2", name, spec, batch_size=size, drop_remainder=drops)
        return self._then(
            "ParallelBatchDataset",
            name,
            spec,
            batch_size=size,
            num_parallel_calls=counted(num_parallel_calls, "num_parallel_calls"),
            drop_remainder=drops,
            deterministic=order(deterministic),
        )

    def padded_batch(
        self,
        batch_size: TensorLike,
        padded_shapes: Structure = None,
        padding_values: Structure = None,
        drop_remainder: TensorLike = False,
        name: str | None = None,
    ) -> Dataset:
        """Return batches of elements that are padded to a common shape.

        padded_shapes: for each component; None or -1 for the largest size of a batch; the
        components' own shapes by default. padding_values: scalars; zeros and empty strings by
        default.

        Raises TypeError for sparse components, ValueError for components of unknown rank without a
        padded shape, and for a padded size below a known one.
        """
        specs = self.element_spec
        leaves = flatten(specs)
        for leaf in leaves:
            if not isinstance(leaf, TensorSpec):
                raise TypeError(f"Dataset.padded_batch pads dense tensors only, not {leaf}")
        if padded_shapes is None:
            for leaf in leaves:
                if leaf.shape.dims_tuple is None:
                    raise ValueError(
                        f"You must provide `padded_shapes` argument because component {leaf} has "
                        "unknown rank."
                    )
            shapes: list[Structure] = [leaf.shape.dims_tuple for leaf in leaves]
        else:
            shapes = _given_shapes(specs, padded_shapes)
        size, drops = counted(batch_size, "batch_size"), _drops(drop_remainder)
        known = _known_size(size, drops)
        static = []
        for leaf, shape in zip(leaves, shapes, strict=True):
            static.append(_checked(leaf, _static(shape)))
        padding = _padding_values(specs, leaves, padding_values)
        return self._then(
            "PaddedBatchDatasetV2",
            name,
            pack(
                specs,
                [
                    TensorSpec(TensorShape(_with_first(known, dims)), leaf.dtype)
                    for leaf, dims in zip(leaves, static, strict=True)
                ],
            ),
            batch_size=size,
            padded_shapes=[_as_vector(shape) for shape in shapes],
            padding_values=padding,
            drop_remainder=drops,
            Toutput_types=[leaf.dtype for leaf in leaves],
        )

    def unbatch(self, name: str | None = None) -> Dataset:
        """Return the slices of all elements along their first axis.

        Raises ValueError for scalar components.
        """
        for leaf in flatten(self.element_spec):
            if leaf.shape.dims_tuple == ():
                raise ValueError("Cannot unbatch an input with scalar components.")
        check_first_sizes(self.element_spec)
        rest = reshaped(
            self.element_spec, lambda dims: None if dims is None else dims[1:], "unbatch"
        )
        if any(isinstance(leaf, SparseTensorSpec) for leaf in flatten(rest)):
            from tfjit.client.datasets.dataset import Dataset

            whole = Dataset(self._variant_tensor, self.element_spec)
            sliced = whole.map(lambda *parts: tuple(to_tensors(parts, rows=True)))
            return sliced._then("UnbatchDataset", name, rest)
        return self._then("UnbatchDataset", name, rest)

    def window(
        self,
        size: TensorLike,
        shift: TensorLike | None = None,
        stride: TensorLike = 1,
        drop_remainder: TensorLike = False,
        name: str | None = None,
    ) -> Dataset:
        """Return windows of `size` elements: a dataset for each component.

        shift: from one window to the next, `size` by default. stride: between the elements of one.
        """
        length = counted(size, "size")
        return self._then(
            "WindowDataset",
            name,
            map_structure(DatasetSpec, self.element_spec),
            size=length,
            shift=length if shift is None else counted(shift, "shift"),
            stride=counted(stride, "stride"),
            drop_remainder=_drops(drop_remainder),
        )

    def group_by_window(
        self,
        key_func: Callable[..., Structure],
        reduce_func: Callable[..., Structure],
        window_size: TensorLike | None = None,
        window_size_func: Callable[..., Structure] | None = None,
        name: str | None = None,
    ) -> Dataset:
        """Return the datasets that a function makes of elements with equal keys.

        key_func: of an element, an int64 scalar. reduce_func: of a key and the window, a dataset;
        returns a dataset. window_size: of all windows, or window_size_func: of a key.

        Raises ValueError unless one of the two is given, TypeError for other results.
        """
        if (window_size is None) == (window_size_func is None):
            raise ValueError(
                "Either the `window_size` or `window_size_func` argument must be specified, and "
                "not both."
            )
        size_of: Structure = window_size_func or (lambda key: window_size)
        key = TracedFunction(key_func, parameters(self.element_spec), "group_by_window")
        key.check_scalar(dt.int64, "group_by_window")
        number = TensorSpec((), dt.int64)
        sizes = TracedFunction(
            lambda key: counted(size_of(key), "size"), [number], "group_by_window"
        )
        sizes.check_scalar(dt.int64, "group_by_window")
        reduced = TracedFunction(
            reduce_func, [number, DatasetSpec(self.element_spec)], "group_by_window"
        )
        if not isinstance(reduced.spec, DatasetSpec):
            raise TypeError(
                "Invalid `reduce_func`. `reduce_func` must return a single `tf.data.Dataset` "
                f"object, it returns {reduced.spec}."
            )
        return self._then(
            "GroupByWindowDataset",
            name,
            reduced.spec.element_spec,
            key_func_other_arguments=key.captured,
            reduce_func_other_arguments=reduced.captured,
            window_size_func_other_arguments=sizes.captured,
            key_func=key.ref,
            reduce_func=reduced.ref,
            window_size_func=sizes.ref,
            Tkey_func_other_arguments=key.captured_types,
            Treduce_func_other_arguments=reduced.captured_types,
            Twindow_size_func_other_arguments=sizes.captured_types,
        )

    def bucket_by_sequence_length(
        self,
        element_length_func: Callable[..., Structure],
        bucket_boundaries: Sequence[int],
        bucket_batch_sizes: Sequence[int],
        padded_shapes: Structure = None,
        padding_values: Structure = None,
        pad_to_bucket_boundary: bool = False,
        no_padding: bool = False,
        drop_remainder: bool = False,
        name: str | None = None,
    ) -> Dataset:
        """Return padded batches of elements of similar length.

        element_length_func: of an element, an int32 scalar. bucket_boundaries: increasing upper
        limits of the buckets but the last. bucket_batch_sizes: one more. pad_to_bucket_boundary:
        pad unknown sizes to the bucket's limit less one. no_padding: the elements of a bucket have
        equal shapes.
        """
        if len(bucket_batch_sizes) != len(bucket_boundaries) + 1:
            raise ValueError(
                "Must have `len(bucket_batch_sizes) == len(bucket_boundaries) + 1` but "
                f"`len(bucket_batch_sizes)={len(bucket_batch_sizes)}` and "
                f"`len(bucket_boundaries)={len(bucket_boundaries)}`."
            )
        limits = np.array(bucket_boundaries, np.int64)
        batch_sizes = np.array(bucket_batch_sizes, np.int64)

        def bucket(*parts: Structure) -> Tensor:
            length = tensor("Cast", None, x=element_length_func(*parts), DstT=dt.int64)
            beyond = tensor("GreaterEqual", None, x=length, y=convert_to_tensor(limits))
            count = tensor("Cast", None, x=beyond, DstT=dt.int64)
            return tensor("Sum", None, input=count, reduction_indices=[0])

        def batches(key: Tensor, window: Dataset) -> Dataset:
            size = tensor("GatherV2", None, params=batch_sizes, indices=key, axis=0)
            if no_padding:
                return window.batch(size, drop_remainder)
            shapes = padded_shapes
            if pad_to_bucket_boundary:
                last = tensor("GatherV2", None, params=limits - 1, indices=key, axis=0)
                given = self.output_shapes if shapes is None else shapes
                flat = _given_shapes(self.element_spec, given)
                shapes = pack(self.element_spec, [_filled(shape, last) for shape in flat])
            return window.padded_batch(size, shapes, padding_values, drop_remainder)

        return self.group_by_window(
            bucket,
            batches,
            window_size_func=lambda key: tensor(
                "GatherV2", None, params=batch_sizes, indices=key, axis=0
            ),
            name=name,
        )

    def sparse_batch(
        self, batch_size: TensorLike, row_shape: TensorLike, name: str | None = None
    ) -> Dataset:
        """Raise UnimplementedError: elements of tfjit's datasets are dense."""
        from tfjit.framework import errors

        raise errors.UnimplementedError(
            None, None, "tf.data.Dataset.sparse_batch: elements of tfjit's datasets are dense."
        )


def _drops(drop_remainder: TensorLike) -> Tensor:
    return convert_to_tensor(drop_remainder, dtype=dt.bool, name="drop_remainder")


def _known_size(size: Tensor, drops: Tensor) -> int | None:
    """Return the size of all batches, None if the last differs."""
    found, whole = get_static_value(size), get_static_value(drops)
    return int(found) if found is not None and whole is not None and bool(whole) else None


def _with_first(size: int | None, dims: Shape) -> Shape:
    return None if dims is None else (size, *dims)


def _given_shapes(specs: Structure, shapes: Structure) -> list[Structure]:
    """Return the padded shape of each component: sizes, or a vector."""
    return [_sizes(shape) for shape in flat_shapes(specs, shapes)]


def _sizes(shape: Structure) -> Structure:
    """Return a padded shape as sizes (None: open) or a vector."""
    if isinstance(shape, Tensor):
        return shape
    if isinstance(shape, TensorShape):
        if shape.dims_tuple is None:
            raise ValueError("A padded shape needs a known rank.")
        return shape.dims_tuple
    return tuple(
        size if isinstance(size, Tensor) else None if size is None or size == -1 else int(size)
        for size in shape
    )


def _as_vector(shape: Structure) -> Tensor:
    """Return a padded shape as an int64 vector, -1 for open sizes."""
    if isinstance(shape, Tensor):
        return tensor("Cast", None, x=shape, DstT=dt.int64)
    sizes = [-1 if size is None else size for size in shape]
    if any(isinstance(size, Tensor) for size in sizes):
        return tensor("Pack", None, values=[counted(size, "size") for size in sizes])
    return convert_to_tensor(np.array(sizes, np.int64))


def _static(shape: Structure) -> Shape:
    if isinstance(shape, Tensor):
        known = get_static_value(shape)
        if known is None:
            rank = shape.shape.as_list()[0]
            return None if rank is None else (None,) * rank
        return tuple(None if size < 0 else int(size) for size in known)
    return tuple(None if isinstance(size, Tensor) else size for size in shape)


def _checked(leaf: Spec, padded: Shape) -> Shape:
    """Return a padded shape. Raises ValueError where a component cannot have it."""
    dims = leaf.shape.dims_tuple
    if dims is None or padded is None:
        return padded
    if len(dims) != len(padded) or any(
        have is not None and want is not None and have > want
        for have, want in zip(dims, padded, strict=True)
    ):
        raise ValueError(
            f"The padded shape {TensorShape(padded)} is not compatible with the shape "
            f"{leaf.shape} of the corresponding input component."
        )
    return padded


def _filled(shape: Structure, size: Tensor) -> Structure:
    return tuple(size if part is None else part for part in shape)


def _padding_values(specs: Structure, leaves: Sequence[Spec], given: Structure) -> list[Tensor]:
    """Return a scalar for each component. Raises TypeError for another dtype."""
    if given is None:
        values: list[Structure] = [None] * len(leaves)
    elif isinstance(specs, (tuple, dict)) and isinstance(given, (tuple, dict)):
        values = flatten(given)
    else:
        values = [given] * len(leaves)
    if len(values) != len(leaves):
        raise ValueError(f"Expected {len(leaves)} padding values, got {given}")
    found = []
    for value, leaf in zip(values, leaves, strict=True):
        if value is None:
            value = "" if leaf.dtype is dt.string else np.zeros((), leaf.dtype.as_numpy_dtype)
        found.append(convert_to_tensor(value, dtype=leaf.dtype, name="padding_value"))
    return found


__all__ = ["Batches"]
