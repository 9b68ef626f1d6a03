"""Names for what public functions take, in their signatures.

Nothing here is evaluated but by type checkers: import it under TYPE_CHECKING.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    import os

    import numpy as np

    from tfjit.framework.graphs.indexed_slices import IndexedSlices
    from tfjit.framework.graphs.operation import Operation, Tensor
    from tfjit.framework.types.device_spec import DeviceSpec
    from tfjit.framework.types.dimension import Dimension
    from tfjit.framework.types.dtypes import DType
    from tfjit.framework.types.shape import TensorShape


class HasDType(Protocol):
    """A tensor, variable, array, or another value that knows its dtype."""

    @property
    def dtype(self) -> Any:
        """The dtype of the elements."""


class SessionLike(Protocol):
    """A session of ours or of TensorFlow's."""

    @property
    def graph(self) -> Any:
        """The graph that the session runs."""

    def run(self, fetches: Fetches, feed_dict: FeedDict | None = None) -> Structure:
        """Run what the fetches need and return their values."""


# What `convert_to_tensor` takes: a tensor or variable, or Python and NumPy values.
TensorLike: TypeAlias = "HasDType | bool | int | float | complex | str | bytes | Sequence[Any]"
# What `as_dtype` takes: float32, "float32", np.float32, float, the number of an enum.
DTypeLike: TypeAlias = "DType | np.dtype[Any] | type[Any] | str | int"
# One dtype or several.
DTypesLike: TypeAlias = "DTypeLike | Sequence[DTypeLike]"
# Sizes that may be unknown, or a tensor of sizes.
ShapeLike: TypeAlias = (
    "TensorShape | Sequence[int | Dimension | Tensor | None] | Tensor | np.ndarray | int"
)
# One axis or several.
AxisLike: TypeAlias = "int | Sequence[int] | Tensor | np.ndarray | np.integer[Any]"
# The name of a collection of a graph, or several.
CollectionNames: TypeAlias = "str | Sequence[str]"
# A number for each of a window's axes, or one for all.
IntsLike: TypeAlias = "int | Sequence[int]"
# What windows do at borders: a name, or the width before and after each axis.
PaddingLike: TypeAlias = "str | Sequence[Sequence[int]]"
# A device's name, or a function that places each operation.
DeviceLike: TypeAlias = "str | DeviceSpec | Callable[[Operation], str | None]"
# A function of shape, dtype and partition, a class of such, or the value itself.
InitializerLike: TypeAlias = "Callable[..., Any] | TensorLike"
# A loss of the variable's value.
RegularizerLike: TypeAlias = "Callable[[Tensor], Tensor | None]"
# A function of the variable's new value.
ConstraintLike: TypeAlias = "Callable[[Tensor], Tensor]"
# A function of shape and dtype that says into how many parts each axis is cut.
PartitionerLike: TypeAlias = "Callable[..., Sequence[int]]"
# Stands between `get_variable` and the function that it calls.
VariableGetter: TypeAlias = "Callable[..., Any]"
# A number that an optimizer uses, or a function that gives it.
HyperparameterLike: TypeAlias = "TensorLike | Callable[[], TensorLike]"
# A path of a file or folder.
PathLike: TypeAlias = "str | bytes | os.PathLike[str] | os.PathLike[bytes]"
# Tensors, operations and names, in any structure.
Fetches: TypeAlias = "object"
# Values for tensors, by tensor or name.
FeedDict: TypeAlias = "Mapping[Any, Any]"
# Tensors, arrays and sizes in lists, tuples and dicts: no type says how deep.
Structure: TypeAlias = Any
# A dense or a sparse tensor, which have no class in common.
DenseOrSparse: TypeAlias = Any
# A dense or a ragged tensor, or the values of one, which have no class in common.
DenseOrRagged: TypeAlias = Any
# A message of TensorFlow's format, of our classes or of TensorFlow's.
Message: TypeAlias = Any
# A gradient, and what a gradient function gives: one for each input.
GradientLike: TypeAlias = "Tensor | IndexedSlices | None"
Gradients: TypeAlias = "GradientLike | Sequence[GradientLike]"
