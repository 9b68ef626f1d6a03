"""`Conv1D`, `Conv2D`, `Conv3D` and the functions that call them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfjit.client.network.convolution import ZEROS, Convolution
from tfjit.framework.graphs.operation import Tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import (
        ConstraintLike,
        IntsLike,
        Structure,
        TensorLike,
    )


class Conv1D(Convolution):
    """Convolution of sequences [batch, w, c] -> [batch, out_w, filters].

    Variables: kernel [k_w, c, filters], bias [filters]. padding: also "causal",
    for windows that look back only.
    """

    rank = 1

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
            filters,
            kernel_size,
            strides,
            padding,
            data_format,
            dilation_rate,
            activation,
            use_bias,
            kernel_initializer,
            bias_initializer,
            kernel_regularizer,
            bias_regularizer,
            activity_regularizer,
            kernel_constraint,
            bias_constraint,
            trainable,
            name,
            **kwargs,
        )


def conv1d(
    inputs: TensorLike,
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
    reuse: object = None,
) -> Tensor:
    """Return `Conv1D` of sequences [batch, w, c]."""
    layer = Conv1D(
        filters,
        kernel_size,
        strides,
        padding,
        data_format,
        dilation_rate,
        activation,
        use_bias,
        kernel_initializer,
        bias_initializer,
        kernel_regularizer,
        bias_regularizer,
        activity_regularizer,
        kernel_constraint,
        bias_constraint,
        trainable,
        name,
        _scope=name,
        _reuse=reuse,
    )
    made: Tensor = layer(inputs)
    return made


class Conv2D(Convolution):
    """Convolution of images [batch, h, w, c] -> [batch, out_h, out_w, filters].

    Variables: kernel [k_h, k_w, c, filters], bias [filters].
    """

    rank = 2

    def __init__(
        self,
        filters: int,
        kernel_size: IntsLike,
        strides: IntsLike = (1, 1),
        padding: str = "valid",
        data_format: str = "channels_last",
        dilation_rate: IntsLike = (1, 1),
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
            filters,
            kernel_size,
            strides,
            padding,
            data_format,
            dilation_rate,
            activation,
            use_bias,
            kernel_initializer,
            bias_initializer,
            kernel_regularizer,
            bias_regularizer,
            activity_regularizer,
            kernel_constraint,
            bias_constraint,
            trainable,
            name,
            **kwargs,
        )


def conv2d(
    inputs: TensorLike,
    filters: int,
    kernel_size: IntsLike,
    strides: IntsLike = (1, 1),
    padding: str = "valid",
    data_format: str = "channels_last",
    dilation_rate: IntsLike = (1, 1),
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
    reuse: object = None,
) -> Tensor:
    """Return `Conv2D` of images [batch, h, w, c]."""
    layer = Conv2D(
        filters,
        kernel_size,
        strides,
        padding,
        data_format,
        dilation_rate,
        activation,
        use_bias,
        kernel_initializer,
        bias_initializer,
        kernel_regularizer,
        bias_regularizer,
        activity_regularizer,
        kernel_constraint,
        bias_constraint,
        trainable,
        name,
        _scope=name,
        _reuse=reuse,
    )
    made: Tensor = layer(inputs)
    return made


class Conv3D(Convolution):
    """Convolution of volumes [batch, d, h, w, c].

    The result is [batch, out_d, out_h, out_w, filters]. Variables: kernel [k_d, k_h, k_w, c,
    filters], bias [filters].
    """

    rank = 3

    def __init__(
        self,
        filters: int,
        kernel_size: IntsLike,
        strides: IntsLike = (1, 1, 1),
        padding: str = "valid",
        data_format: str = "channels_last",
        dilation_rate: IntsLike = (1, 1, 1),
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
            filters,
            kernel_size,
            strides,
            padding,
            data_format,
            dilation_rate,
            activation,
            use_bias,
            kernel_initializer,
            bias_initializer,
            kernel_regularizer,
            bias_regularizer,
            activity_regularizer,
            kernel_constraint,
            bias_constraint,
            trainable,
            name,
            **kwargs,
        )


def conv3d(
    inputs: TensorLike,
    filters: int,
    kernel_size: IntsLike,
    strides: IntsLike = (1, 1, 1),
    padding: str = "valid",
    data_format: str = "channels_last",
    dilation_rate: IntsLike = (1, 1, 1),
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
    reuse: object = None,
) -> Tensor:
    """Return `Conv3D` of volumes [batch, d, h, w, c]."""
    layer = Conv3D(
        filters,
        kernel_size,
        strides,
        padding,
        data_format,
        dilation_rate,
        activation,
        use_bias,
        kernel_initializer,
        bias_initializer,
        kernel_regularizer,
        bias_regularizer,
        activity_regularizer,
        kernel_constraint,
        bias_constraint,
        trainable,
        name,
        _scope=name,
        _reuse=reuse,
    )
    made: Tensor = layer(inputs)
    return made
