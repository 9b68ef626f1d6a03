"""`PartitionedVariable`: variables that are slices of one tensor."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tfjit.client.variables.variables import Variable
from tfjit.framework.graphs.default_graph import control_dependencies, name_scope
from tfjit.framework.types.shape import TensorShape
from tfjit.ops.arrays.array import identity
from tfjit.ops.arrays.movement_functions import concat, split
from tfjit.ops.core.convert import register_tensor_conversion_function

if TYPE_CHECKING:
    from tfjit.framework.graphs.operation import Tensor
    from tfjit.framework.graphs.typing import PartitionerLike, Structure
    from tfjit.framework.types.dtypes import DType


class PartitionedVariable:
    """The variables that one `get_variable` with a partitioner makes.

    It converts to the tensor that they are slices of, and iterates over them. Each has a
    `SaveSliceInfo`. partitions: the number of slices along each axis, at most one of which is more
    than 1. Raises TypeError and ValueError for slices that do not fit.
    """

    def __init__(
        self,
        name: str,
        shape: TensorShape,
        dtype: DType,
        variable_list: Sequence[Variable],
        partitions: Sequence[int],
    ) -> None:
        if not isinstance(variable_list, (list, tuple)):
            raise TypeError(f"variable_list is not a list or tuple: {variable_list}")
        if not isinstance(partitions, (list, tuple)):
            raise TypeError(f"partitions is not a list or tuple: {partitions}")
        if not all(count >= 1 for count in partitions):
            raise ValueError(f"partition values must be positive: {partitions}")
        if not variable_list:
            raise ValueError("variable_list may not be empty")
        places = {variable: variable._get_save_slice_info() for variable in variable_list}
        if None in places.values():
            raise ValueError(
                "All variables must have a save_slice_info available: "
                f"{[variable.name for variable in variable_list]}"
            )
        if len(shape) != len(partitions):
            raise ValueError(f"len(shape) != len(partitions): {shape} vs. {partitions}")
        for place in places.values():
            if place.full_shape != shape.as_list():
                raise ValueError(
                    f"All variables' full shapes must match shape: {shape}; but full shapes were: "
                    f"{[place.full_shape]}"
                )
        self._variables = sorted(variable_list, key=lambda v: places[v].var_offset)
        self._name = name
        self._shape = shape
        self._dtype = dtype
        self._partitions = partitions

    def __iter__(self) -> Iterator[Variable]:
        return iter(self._variables)

    def __len__(self) -> int:
        self._axis("Cannot get a length for {} > 1 partition axes", ValueError)
        return len(self._variables)

    def _axis(self, message: str, error: type[Exception]) -> int:
        axes = [axis for axis, count in enumerate(self._partitions) if count > 1]
        if len(axes) > 1:
            raise error(message.format(len(axes)))
        return axes[0] if axes else 0

    def as_tensor(self) -> Tensor:
        """Return the slices joined."""
        with control_dependencies(None):
            joined: Structure = self._variables[0]
            if len(self._variables) > 1:
                axis = self._axis("Cannot concatenate along {} dimensions", NotImplementedError)
                with name_scope(f"{self._name}/ConcatPartitions/"):
                    joined = concat(self._variables, axis)
            with name_scope(None):
                return identity(joined, name=self._name)

    @property
    def name(self) -> str:
        """The name that the slices' names begin with."""
        return self._name

    @property
    def dtype(self) -> DType:
        """Element type."""
        return self._dtype

    @property
    def shape(self) -> TensorShape:
        """The shape of the joined slices."""
        return self._shape

    def get_shape(self) -> TensorShape:
        """Return the shape of the joined slices."""
        return self._shape

    def _get_variable_list(self) -> list[Variable]:
        return self._variables

    def _get_partitions(self) -> Sequence[int]:
        return self._partitions

    def assign(
        self,
        value: Structure,
        use_locking: bool = False,
        name: str | None = None,
        read_value: bool = True,
    ) -> list[Structure]:
        """Set all slices.

        value: a tensor of the whole, or a list with a tensor for each slice.

        Returns one result of `Variable.assign` for each slice.
        """
        return self._each("assign", value, use_locking, name, read_value)

    def assign_add(
        self,
        value: Structure,
        use_locking: bool = False,
        name: str | None = None,
        read_value: bool = True,
    ) -> list[Structure]:
        """Add to all slices. Arguments and result are as of `assign`."""
        return self._each("assign_add", value, use_locking, name, read_value)

    def assign_sub(
        self,
        value: Structure,
        use_locking: bool = False,
        name: str | None = None,
        read_value: bool = True,
    ) -> list[Structure]:
        """Subtract from all slices. Arguments and result are as of `assign`."""
        return self._each("assign_sub", value, use_locking, name, read_value)

    def _each(
        self, method: str, value: Structure, use_locking: bool, name: str | None, read_value: bool
    ) -> list[Structure]:
        axis = self._axis("Cannot assign along {} dimensions", NotImplementedError)
        if isinstance(value, (list, PartitionedVariable)):
            values = list(value)
        else:
            values = split(value, [int(v.shape[axis]) for v in self._variables], axis=axis)
        return [
            getattr(variable, method)(
                part, use_locking=use_locking, name=name, read_value=read_value
            )
            for variable, part in zip(self._variables, values, strict=True)
        ]


def called_partitioner(
    partitioner: PartitionerLike, shape: TensorShape, dtype: DType
) -> Sequence[int]:
    """Return the number of slices along each axis, from the partitioner.

    Raises ValueError for a shape that is not known, for a scalar, and for a result that does not
    cut one axis of the shape.
    """
    if not shape.is_fully_defined():
        raise ValueError(
            f"Shape of a new partitioned variable must be fully defined, but instead was {shape}."
        )
    if len(shape) < 1:
        raise ValueError(f"A partitioned Variable must have rank at least 1, shape: {shape}")
    counts = partitioner(shape=shape, dtype=dtype)
    if not isinstance(counts, Sequence):
        raise ValueError(f"Partitioner must return a sequence, but saw: {counts}")
    if len(counts) != len(shape):
        raise ValueError(
            "Partitioner returned a partition list that does not match the Variable's rank: "
            f"{counts} vs. {shape}"
        )
    if any(count < 1 for count in counts):
        raise ValueError(f"Partitioner returned zero partitions for some axes: {counts}")
    if sum(count > 1 for count in counts) > 1:
        raise ValueError(
            f"Can only slice a variable along one dimension: shape: {shape}, partitioning: {counts}"
        )
    return counts


def slices(shape: Sequence[int], counts: Sequence[int]) -> Iterator[tuple[list[int], list[int]]]:
    """Yield (offsets, sizes) of the slices along the axis that is cut.

    The first slices are one longer where the axis is no multiple of their number.
    """
    axis = next((axis for axis, count in enumerate(counts) if count > 1), 0)
    least, longer = divmod(shape[axis], counts[axis])
    offsets, sizes = [0] * len(shape), list(shape)
    for k in range(counts[axis]):
        sizes[axis] = least + (k < longer)
        yield list(offsets), list(sizes)
        offsets[axis] += sizes[axis]


def _convert(
    variable: PartitionedVariable,
    dtype: DType | None = None,
    name: str | None = None,
    as_ref: bool = False,
) -> Tensor:
    if dtype is not None and not dtype.is_compatible_with(variable.dtype):
        raise ValueError(
            f"Incompatible type conversion requested to type '{dtype.name}' for variable of type "
            f"'{variable.dtype.name}'"
        )
    if as_ref:
        raise NotImplementedError("PartitionedVariable doesn't support being used as a reference.")
    return variable.as_tensor()


register_tensor_conversion_function(PartitionedVariable, _convert, 100)
