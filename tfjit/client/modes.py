"""Switches of TensorFlow 2 that TF1 programs set.

tfjit is always in the state they ask for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfjit.client.variables.resource_default import disable_resource_variables
from tfjit.client.variables.variables import Variable
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.types.dimension import set_v2_tensorshape

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import TensorLike


def disable_eager_execution() -> None:
    """Do nothing: operations are always nodes of a graph."""


def disable_tensor_equality() -> None:
    """Do nothing: `==` of tensors always compares identity."""


def disable_v2_tensorshape() -> None:
    """Make TensorShapes give Dimensions, as in TensorFlow 1.

    It concerns indexing and iterating.
    """
    set_v2_tensorshape(False)


def enable_v2_tensorshape() -> None:
    """Make TensorShapes give ints and None, as in TensorFlow 2.

    It concerns indexing and iterating. This is the default, as after `import tensorflow.compat.v1`.
    The ints have a Dimension's `value` too; an unknown size is None, which has not:
    `disable_v2_tensorshape` is for programs that ask an unknown size for its `value`.
    """
    set_v2_tensorshape(True)


def disable_v2_behavior() -> None:
    """Restore TF1's behaviour.

    That is reference variables where `use_resource` is not given, and Dimensions as the sizes of
    shapes.
    """
    disable_resource_variables()
    disable_v2_tensorshape()


def executing_eagerly() -> bool:
    """Return False: operations are always nodes of a graph."""
    return False


def is_tensor(x: TensorLike) -> bool:
    """Return whether `x` is a tensor or a variable."""
    return isinstance(x, (Tensor, Variable))
