"""Layers that take the largest value or the mean of windows."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from tfjit.client.network.input_spec import InputSpec
from tfjit.client.network.layer import Layer
from tfjit.client.network.windows import (
    data_format_of,
    layout_of,
    output_length,
    padding_of,
    sizes_of,
)
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.types.shape import TensorShape
from tfjit.ops.arrays.array import expand_dims, squeeze
from tfjit.ops.core.convert import convert_to_tensor
from tfjit.ops.layers import pooling_functions as functions

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import IntsLike, Structure, TensorLike


class Pooling(Layer):
    """The rules that poolings over `rank` axes share.

    Inputs are [batch, *sizes, channels], or [batch, channels, *sizes] for data_format
    "channels_first".
    """

    rank: ClassVar[int]
    is_mean: ClassVar[bool]

    def __init__(
        self,
        pool_size: IntsLike,
        strides: IntsLike,
        padding: str = "valid",
        data_format: str = "channels_last",
        name: str | None = None,
        **kwargs: Structure,
    ) -> None:
        super().__init__(name=name, **kwargs)
        if strides is None:
            raise ValueError("Argument `strides` must not be None.")
        self.pool_size = sizes_of(pool_size, self.rank, "pool_size")
        self.strides = sizes_of(strides, self.rank, "strides", allow_zero=True)
        self.padding = padding_of(padding)
        self.data_format = data_format_of(data_format)
        self.input_spec = InputSpec(ndim=self.rank + 2)

    def _window(self, sizes: tuple[int, ...]) -> list[int]:
        return [1, 1, *sizes] if self.data_format == "channels_first" else [1, *sizes, 1]

    def call(self, inputs: TensorLike) -> Tensor:
        value = convert_to_tensor(inputs)
        size, strides = self.pool_size, self.strides
        if self.rank == 1:  # a sequence is an image of width 1
            width = 3 if self.data_format == "channels_first" else 2
            value, size, strides = expand_dims(value, width), (*size, 1), (*strides, 1)
        function: Structure
        if self.rank == 3:
            function = functions.avg_pool3d if self.is_mean else functions.max_pool3d
        else:
            function = functions.avg_pool if self.is_mean else functions.max_pool
        made: Tensor = function(
            value,
            self._window(size),
            self._window(strides),
            self.padding.upper(),
            layout_of(self.data_format, max(self.rank, 2)),
            self._op_name,
        )
        return squeeze(made, [width]) if self.rank == 1 else made

    @property
    def _op_name(self) -> str:
        return ("AvgPool" if self.is_mean else "MaxPool") + ("3D" if self.rank == 3 else "")

    def compute_output_shape(self, input_shape: Structure) -> TensorShape:
        """Return the output's shape for that of the input."""
        batch, *sizes = TensorShape(input_shape).as_list()
        first = self.data_format == "channels_first"
        channels, spatial = (sizes[0], sizes[1:]) if first else (sizes[-1], sizes[:-1])
        made = [
            output_length(size, window, self.padding, stride)
            for size, window, stride in zip(spatial, self.pool_size, self.strides)
        ]
        return TensorShape([batch, channels, *made] if first else [batch, *made, channels])


class MaxPooling1D(Pooling):
    """The largest value of each window of sequences.

    [batch, w, c] -> [batch, out_w, c].
    """

    rank = 1
    is_mean = False


class MaxPooling2D(Pooling):
    """The largest value of each window of images.

    [batch, h, w, c] -> [batch, out_h, out_w, c].
    """

    rank = 2
    is_mean = False


class MaxPooling3D(Pooling):
    """The largest value of each window of volumes.

    [batch, d, h, w, c] -> [batch, out_d, out_h, out_w, c].
    """

    rank = 3
    is_mean = False


class AveragePooling1D(Pooling):
    """The mean of each window of sequences.

    [batch, w, c] -> [batch, out_w, c].
    """

    rank = 1
    is_mean = True


class AveragePooling2D(Pooling):
    """The mean of each window of images.

    [batch, h, w, c] -> [batch, out_h, out_w, c].
    """

    rank = 2
    is_mean = True


class AveragePooling3D(Pooling):
    """The mean of each window of volumes.

    [batch, d, h, w, c] -> [batch, out_d, out_h, out_w, c].
    """

    rank = 3
    is_mean = True


def max_pooling1d(
    inputs: TensorLike,
    pool_size: IntsLike,
    strides: IntsLike,
    padding: str = "valid",
    data_format: str = "channels_last",
    name: str | None = None,
) -> Tensor:
    """Return the largest value of each window of sequences.

    inputs [batch, w, c].
    """
    made: Tensor = MaxPooling1D(pool_size, strides, padding, data_format, name)(inputs)
    return made


def max_pooling2d(
    inputs: TensorLike,
    pool_size: IntsLike,
    strides: IntsLike,
    padding: str = "valid",
    data_format: str = "channels_last",
    name: str | None = None,
) -> Tensor:
    """Return the largest value of each window of images.

    inputs [batch, h, w, c].
    """
    made: Tensor = MaxPooling2D(pool_size, strides, padding, data_format, name)(inputs)
    return made


def max_pooling3d(
    inputs: TensorLike,
    pool_size: IntsLike,
    strides: IntsLike,
    padding: str = "valid",
    data_format: str = "channels_last",
    name: str | None = None,
) -> Tensor:
    """Return the largest value of each window of volumes.

    inputs [batch, d, h, w, c].
    """
    made: Tensor = MaxPooling3D(pool_size, strides, padding, data_format, name)(inputs)
    return made


def average_pooling1d(
    inputs: TensorLike,
    pool_size: IntsLike,
    strides: IntsLike,
    padding: str = "valid",
    data_format: str = "channels_last",
    name: str | None = None,
) -> Tensor:
    """Return the mean of each window of sequences.

    inputs [batch, w, c].
    """
    made: Tensor = AveragePooling1D(pool_size, strides, padding, data_format, name)(inputs)
    return made


def average_pooling2d(
    inputs: TensorLike,
    pool_size: IntsLike,
    strides: IntsLike,
    padding: str = "valid",
    data_format: str = "channels_last",
    name: str | None = None,
) -> Tensor:
    """Return the mean of each window of images.

    inputs [batch, h, w, c].
    """
    made: Tensor = AveragePooling2D(pool_size, strides, padding, data_format, name)(inputs)
    return made


def average_pooling3d(
    inputs: TensorLike,
    pool_size: IntsLike,
    strides: IntsLike,
    padding: str = "valid",
    data_format: str = "channels_last",
    name: str | None = None,
) -> Tensor:
    """Return the mean of each window of volumes.

    inputs [batch, d, h, w, c].
    """
    made: Tensor = AveragePooling3D(pool_size, strides, padding, data_format, name)(inputs)
    return made
