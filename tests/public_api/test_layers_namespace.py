"""`tfjit.layers` has the names and arguments of TensorFlow 2.21's `tf.compat.v1.layers`.

They were recorded with the package tf_keras, which that namespace needs since TensorFlow 2.16.
"""

from __future__ import annotations

import inspect
import re

import pytest

import tfjit
from tfjit.client.variables.initializers import Initializer

# A name with its arguments and their defaults; continuation lines are indented.
SIGNATURES = """
AveragePooling1D pool_size strides padding='valid' data_format='channels_last' name=None
AveragePooling2D pool_size strides padding='valid' data_format='channels_last' name=None
AveragePooling3D pool_size strides padding='valid' data_format='channels_last' name=None
BatchNormalization axis=-1 momentum=0.99 epsilon=0.001 center=True scale=True
    beta_initializer=Zeros gamma_initializer=Ones moving_mean_initializer=Zeros
    moving_variance_initializer=Ones beta_regularizer=None gamma_regularizer=None
    beta_constraint=None gamma_constraint=None renorm=False renorm_clipping=None
    renorm_momentum=0.99 fused=None trainable=True virtual_batch_size=None adjustment=None
    name=None
Conv1D filters kernel_size strides=1 padding='valid' data_format='channels_last' dilation_rate=1
    activation=None use_bias=True kernel_initializer=None bias_initializer=Zeros
    kernel_regularizer=None bias_regularizer=None activity_regularizer=None
    kernel_constraint=None bias_constraint=None trainable=True name=None
Conv2D filters kernel_size strides=(1,1) padding='valid' data_format='channels_last'
    dilation_rate=(1,1) activation=None use_bias=True kernel_initializer=None
    bias_initializer=Zeros kernel_regularizer=None bias_regularizer=None
    activity_regularizer=None kernel_constraint=None bias_constraint=None trainable=True
    name=None
Conv2DTranspose filters kernel_size strides=(1,1) padding='valid' data_format='channels_last'
    activation=None use_bias=True kernel_initializer=None bias_initializer=Zeros
    kernel_regularizer=None bias_regularizer=None activity_regularizer=None
    kernel_constraint=None bias_constraint=None trainable=True name=None
Conv3D filters kernel_size strides=(1,1,1) padding='valid' data_format='channels_last'
    dilation_rate=(1,1,1) activation=None use_bias=True kernel_initializer=None
    bias_initializer=Zeros kernel_regularizer=None bias_regularizer=None
    activity_regularizer=None kernel_constraint=None bias_constraint=None trainable=True
    name=None
Conv3DTranspose filters kernel_size strides=(1,1,1) padding='valid' data_format='channels_last'
    activation=None use_bias=True kernel_initializer=None bias_initializer=Zeros
    kernel_regularizer=None bias_regularizer=None activity_regularizer=None
    kernel_constraint=None bias_constraint=None trainable=True name=None
Dense units activation=None use_bias=True kernel_initializer=None bias_initializer=Zeros
    kernel_regularizer=None bias_regularizer=None activity_regularizer=None
    kernel_constraint=None bias_constraint=None trainable=True name=None
Dropout rate=0.5 noise_shape=None seed=None name=None
Flatten data_format=None
InputSpec dtype=None shape=None ndim=None max_ndim=None min_ndim=None axes=None
    allow_last_axis_squeeze=False name=None optional=False
Layer trainable=True name=None dtype=None
MaxPooling1D pool_size strides padding='valid' data_format='channels_last' name=None
MaxPooling2D pool_size strides padding='valid' data_format='channels_last' name=None
MaxPooling3D pool_size strides padding='valid' data_format='channels_last' name=None
SeparableConv1D filters kernel_size strides=1 padding='valid' data_format='channels_last'
    dilation_rate=1 depth_multiplier=1 activation=None use_bias=True depthwise_initializer=None
    pointwise_initializer=None bias_initializer=Zeros depthwise_regularizer=None
    pointwise_regularizer=None bias_regularizer=None activity_regularizer=None
    depthwise_constraint=None pointwise_constraint=None bias_constraint=None trainable=True
    name=None
SeparableConv2D filters kernel_size strides=(1,1) padding='valid' data_format='channels_last'
    dilation_rate=(1,1) depth_multiplier=1 activation=None use_bias=True
    depthwise_initializer=None pointwise_initializer=None bias_initializer=Zeros
    depthwise_regularizer=None pointwise_regularizer=None bias_regularizer=None
    activity_regularizer=None depthwise_constraint=None pointwise_constraint=None
    bias_constraint=None trainable=True name=None
average_pooling1d inputs pool_size strides padding='valid' data_format='channels_last' name=None
average_pooling2d inputs pool_size strides padding='valid' data_format='channels_last' name=None
average_pooling3d inputs pool_size strides padding='valid' data_format='channels_last' name=None
batch_normalization inputs axis=-1 momentum=0.99 epsilon=0.001 center=True scale=True
    beta_initializer=Zeros gamma_initializer=Ones moving_mean_initializer=Zeros
    moving_variance_initializer=Ones beta_regularizer=None gamma_regularizer=None
    beta_constraint=None gamma_constraint=None training=False trainable=True name=None
    reuse=None renorm=False renorm_clipping=None renorm_momentum=0.99 fused=None
    virtual_batch_size=None adjustment=None
conv1d inputs filters kernel_size strides=1 padding='valid' data_format='channels_last'
    dilation_rate=1 activation=None use_bias=True kernel_initializer=None bias_initializer=Zeros
    kernel_regularizer=None bias_regularizer=None activity_regularizer=None
    kernel_constraint=None bias_constraint=None trainable=True name=None reuse=None
conv2d inputs filters kernel_size strides=(1,1) padding='valid' data_format='channels_last'
    dilation_rate=(1,1) activation=None use_bias=True kernel_initializer=None
    bias_initializer=Zeros kernel_regularizer=None bias_regularizer=None
    activity_regularizer=None kernel_constraint=None bias_constraint=None trainable=True
    name=None reuse=None
conv2d_transpose inputs filters kernel_size strides=(1,1) padding='valid'
    data_format='channels_last' activation=None use_bias=True kernel_initializer=None
    bias_initializer=Zeros kernel_regularizer=None bias_regularizer=None
    activity_regularizer=None kernel_constraint=None bias_constraint=None trainable=True
    name=None reuse=None
conv3d inputs filters kernel_size strides=(1,1,1) padding='valid' data_format='channels_last'
    dilation_rate=(1,1,1) activation=None use_bias=True kernel_initializer=None
    bias_initializer=Zeros kernel_regularizer=None bias_regularizer=None
    activity_regularizer=None kernel_constraint=None bias_constraint=None trainable=True
    name=None reuse=None
conv3d_transpose inputs filters kernel_size strides=(1,1,1) padding='valid'
    data_format='channels_last' activation=None use_bias=True kernel_initializer=None
    bias_initializer=Zeros kernel_regularizer=None bias_regularizer=None
    activity_regularizer=None kernel_constraint=None bias_constraint=None trainable=True
    name=None reuse=None
dense inputs units activation=None use_bias=True kernel_initializer=None bias_initializer=Zeros
    kernel_regularizer=None bias_regularizer=None activity_regularizer=None
    kernel_constraint=None bias_constraint=None trainable=True name=None reuse=None
dropout inputs rate=0.5 noise_shape=None seed=None training=False name=None
flatten inputs name=None data_format='channels_last'
max_pooling1d inputs pool_size strides padding='valid' data_format='channels_last' name=None
max_pooling2d inputs pool_size strides padding='valid' data_format='channels_last' name=None
max_pooling3d inputs pool_size strides padding='valid' data_format='channels_last' name=None
separable_conv1d inputs filters kernel_size strides=1 padding='valid'
    data_format='channels_last' dilation_rate=1 depth_multiplier=1 activation=None use_bias=True
    depthwise_initializer=None pointwise_initializer=None bias_initializer=Zeros
    depthwise_regularizer=None pointwise_regularizer=None bias_regularizer=None
    activity_regularizer=None depthwise_constraint=None pointwise_constraint=None
    bias_constraint=None trainable=True name=None reuse=None
separable_conv2d inputs filters kernel_size strides=(1,1) padding='valid'
    data_format='channels_last' dilation_rate=(1,1) depth_multiplier=1 activation=None
    use_bias=True depthwise_initializer=None pointwise_initializer=None bias_initializer=Zeros
    depthwise_regularizer=None pointwise_regularizer=None bias_regularizer=None
    activity_regularizer=None depthwise_constraint=None pointwise_constraint=None
    bias_constraint=None trainable=True name=None reuse=None
"""
ENTRIES = re.sub(r"\n    ", " ", SIGNATURES).strip().split("\n")


def shown(value: object) -> str:
    """Return a default as the table has it: an initializer by its class."""
    if value is inspect.Parameter.empty:
        return ""
    plain = type(value).__name__ if isinstance(value, Initializer) else repr(value)
    return "=" + plain.replace(" ", "")


def test_names() -> None:
    assert set(dir(tfjit.layers)) == {entry.split()[0] for entry in ENTRIES} | {"experimental"}
    assert {"keras_style_scope", "set_keras_style"} == set(tfjit.layers.experimental.__all__)
    assert tfjit.compat.v1.layers is tfjit.layers


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.split()[0])
def test_arguments(entry: str) -> None:
    name, *arguments = entry.split()
    parameters = inspect.signature(getattr(tfjit.layers, name)).parameters.values()
    named = [p for p in parameters if p.kind is not p.VAR_KEYWORD]
    assert [p.name + shown(p.default) for p in named] == arguments
