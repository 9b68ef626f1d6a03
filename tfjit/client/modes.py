"""Switches of TensorFlow 2 that TF1 programs set: tfjit is always in the state they ask for."""

from __future__ import annotations

from typing import Any

from tfjit.client.variables import Variable, disable_resource_variables
from tfjit.framework.operation import Tensor


def disable_eager_execution() -> None:
    """Nothing to do: operations are always nodes of a graph."""


def disable_control_flow_v2() -> None:
    """Nothing to do: control flow is always made of Switch and Merge."""


def disable_tensor_equality() -> None:
    """Nothing to do: `==` of tensors always compares identity."""


def disable_v2_tensorshape() -> None:
    """Nothing to do: the sizes of a TensorShape are always Dimensions."""


def disable_v2_behavior() -> None:
    """Back to TF1's behaviour: reference variables where `use_resource` is not given."""
    disable_resource_variables()


def executing_eagerly() -> bool:
    """False: operations are always nodes of a graph."""
    return False


def is_tensor(x: Any) -> bool:
    """Whether `x` is a tensor or a variable."""
    return isinstance(x, (Tensor, Variable))
