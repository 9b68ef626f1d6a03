"""Layers that convolve over one, two or three axes."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from tfjit.client.network.identifiers import (
    find_activation,
    find_constraint,
    find_initializer,
    find_regularizer,
)
from tfjit.client.network.input_spec import InputSpec
from tfjit.client.network.layer import Layer
from tfjit.client.network.windows import (
    data_format_of,
    layout_of,
    output_length,
    padding_of,
    sizes_of,
)
from tfjit.client.variables.initializers import Zeros
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.types.shape import TensorShape
from tfjit.ops.arrays.array import reshape
from tfjit.ops.arrays.movement_functions import pad
from tfjit.ops.core.convert import convert_to_tensor
from tfjit.ops.layers import convolution_functions
from tfjit.ops.layers.normalization_functions import bias_add

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import (
        ConstraintLike,
        IntsLike,
        Structure,
        TensorLike,
    )

ZEROS = Zeros()


class Convolution(Layer):
    """The rules that convolutions over `rank` axes share.

    Inputs are [batch, *sizes, channels], or [batch, channels, *sizes] for data_format
    "channels_first". Variables: kernel [*kernel_size, channels, filters], bias [filters].
    """

    rank: ClassVar[int]
    transposed: ClassVar[bool] = False

    def __init__(
        self,
        filters: int,
        kernel_size: IntsLike,
        strides: IntsLike = 1,
        padding: str = "valid",
        data_format: str = "channels_last",
        dilation_rate: IntsLike = 1,
        activation: Structure = None,
        use_bias: bool = True,
        kernel_initializer: Structure = None,
        bias_initializer: Structure = ZEROS,
        kernel_regularizer: Structure = None,
        bias_regularizer: Structure = None,
        activity_regularizer: Structure = None,
        kernel_constraint: ConstraintLike | str | None = None,
        bias_constraint: ConstraintLike | str | None = None,
        trainable: bool = True,
        name: str | None = None,
        **kwargs: Structure,
    ) -> None:
        super().__init__(
            trainable, name, activity_regularizer=find_regularizer(activity_regularizer), **kwargs
        )
        self.filters = int(filters) if isinstance(filters, float) else filters
        if self.filters is not None and self.filters <= 0:
            raise ValueError(
                "Invalid value for argument `filters`. Expected a strictly positive value. "
                f"Received filters={filters}."
            )
        self.kernel_size = sizes_of(kernel_size, self.rank, "kernel_size")
        self.strides = sizes_of(strides, self.rank, "strides", allow_zero=True)
        self.padding = padding_of(padding)
        self.data_format = data_format_of(data_format)
        self.dilation_rate = sizes_of(dilation_rate, self.rank, "dilation_rate")
        self._check_windows()
        self.activation = find_activation(activation)
        self.use_bias = use_bias
        self.kernel_initializer = find_initializer(kernel_initializer)
        self.bias_initializer = find_initializer(bias_initializer)
        self.kernel_regularizer = find_regularizer(kernel_regularizer)
        self.bias_regularizer = find_regularizer(bias_regularizer)
        self.kernel_constraint = find_constraint(kernel_constraint)
        self.bias_constraint = find_constraint(bias_constraint)
        self.input_spec = InputSpec(min_ndim=self.rank + 2)
        self.kernel: Structure = None
        self.bias: Structure = None

    def _check_windows(self) -> None:
        """Raise ValueError for windows that no convolution has."""
        if not all(self.strides):
            raise ValueError(
                f"The argument `strides` cannot contains 0(s). Received: {self.strides}"
            )
        if self.padding == "causal" and (self.rank != 1 or self.transposed):
            raise ValueError("Causal padding is only supported for `Conv1D`and `SeparableConv1D`.")
        if max(self.strides) > 1 and max(self.dilation_rate) > 1:
            raise ValueError(
                "`strides > 1` not supported in conjunction with `dilation_rate > 1`. Received: "
                f"strides={self.strides} and dilation_rate={self.dilation_rate}"
            )

    @property
    def _channels_first(self) -> bool:
        return self.data_format == "channels_first"

    @property
    def _channel_axis(self) -> int:
        return -1 - self.rank if self._channels_first else -1

    @property
    def _layout(self) -> str:
        return layout_of(self.data_format, self.rank)

    def _channels(self, shape: TensorShape) -> int:
        """Return the number of channels of an input.

        Raises ValueError for an unknown one.
        """
        sizes = shape.dims_tuple
        found = None if sizes is None else sizes[self._channel_axis]
        if found is None:
            of = f" to `{type(self).__name__}`" if self.transposed else ""
            raise ValueError(
                f"The channel dimension of the inputs{of} should be defined. The input_shape "
                f"received is {shape}, where axis {self._channel_axis} (0-based) is the channel "
                "dimension, which found to be `None`."
            )
        return found

    def _per_axis(self, spatial: tuple[int, ...]) -> list[int]:
        """Return numbers of the spatial axes with 1 for batch and channels."""
        return [1, 1, *spatial] if self._channels_first else [1, *spatial, 1]

    def _kernel_shape(self, channels: int) -> list[int]:
        return [*self.kernel_size, channels, self.filters]

    def _add_bias_weight(self) -> None:
        if self.use_bias:
            self.bias = self.add_weight(
                "bias",
                [self.filters],
                initializer=self.bias_initializer,
                regularizer=self.bias_regularizer,
                constraint=self.bias_constraint,
            )

    def _add_kernels(self, channels: int) -> None:
        self.kernel = self.add_weight(
            "kernel",
            self._kernel_shape(channels),
            initializer=self.kernel_initializer,
            regularizer=self.kernel_regularizer,
            constraint=self.kernel_constraint,
        )

    def build(self, input_shape: Structure) -> None:
        """Make the kernel and the bias."""
        shape = TensorShape(input_shape)
        channels = self._channels(shape)
        self._add_kernels(channels)
        self._add_bias_weight()
        self.input_spec = InputSpec(min_ndim=self.rank + 2, axes={self._channel_axis: channels})
        self._check_output(shape)
        self.built = True

    def _check_output(self, shape: TensorShape) -> None:
        if any(size is not None and size <= 0 for size in self._output_lengths(shape.as_list())):
            raise ValueError(
                "One of the dimensions in the output is <= 0 due to downsampling in "
                f"{self.name}. Consider increasing the input size. Received input shape "
                f"{shape.as_list()} which would produce output shape with a zero or negative value "
                "in a dimension."
            )

    def _causally_padded(self, value: Tensor) -> Tensor:
        """Pad a sequence before its begin for windows that look back only."""
        before = [self.dilation_rate[0] * (self.kernel_size[0] - 1), 0]
        rest = [[0, 0]] * (value.shape.rank - 2)  # type: ignore[operator]
        return pad(
            value, [*rest, [0, 0], before] if self._channels_first else [*rest, before, [0, 0]]
        )

    def call(self, inputs: TensorLike) -> Tensor:
        value = convert_to_tensor(inputs)
        if self.padding == "causal":
            value = self._causally_padded(value)
        made = convolution_functions.convolution(
            value,
            self.kernel,
            "SAME" if self.padding == "same" else "VALID",
            list(self.strides),
            list(self.dilation_rate),
            type(self).__name__,
            self._layout,
        )
        return self._finished(made)

    def _finished(self, made: Tensor) -> Tensor:
        """Return the sum of a product and the bias, activated."""
        if self.use_bias:
            plain = self.rank > 1 and made.shape.rank == self.rank + 2
            if self._channels_first and not plain:
                # Also where batches have several axes, which BiasAdd of NC... has not.
                made = made + reshape(self.bias, [1, self.filters, *[1] * self.rank])
            else:
                made = bias_add(made, self.bias, self._layout)
        activated: Tensor = self.activation(made)
        return activated

    def _spatial(self, sizes: list[int | None]) -> list[int | None]:
        return sizes[-self.rank :] if self._channels_first else sizes[-1 - self.rank : -1]

    def _with_channels(self, sizes: list[int | None], spatial: list[int | None]) -> TensorShape:
        batches = sizes[: len(sizes) - self.rank - 1]
        channels: list[int | None] = [self.filters]
        inner = channels + spatial if self._channels_first else spatial + channels
        return TensorShape([*batches, *inner])

    def compute_output_shape(self, input_shape: Structure) -> TensorShape:
        """Return the output's shape for that of the input."""
        sizes = TensorShape(input_shape).as_list()
        return self._with_channels(sizes, self._output_lengths(sizes))

    def _output_lengths(self, sizes: list[int | None]) -> list[int | None]:
        return [
            output_length(size, window, self.padding, stride, dilation)
            for size, window, stride, dilation in zip(
                self._spatial(sizes), self.kernel_size, self.strides, self.dilation_rate
            )
        ]
