"""Find the tensor lists and arrays that dense arrays can replace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tfjit.framework.types.dtypes import DType, as_dtype
from tfjit.framework.types.shape import Shape, is_compatible
from tfjit.passes.analysis.induction_variables import counted_from, read_loop
from tfjit.passes.ir.constant_value import constant_value
from tfjit.passes.ir.declined import Declined
from tfjit.passes.loops.list_aliases import FLOWS, INDEXED
from tfjit.passes.manager.rewriter import is_static, tensor_shape

if TYPE_CHECKING:
    from tfjit.passes.analysis.region_tree import Scope
    from tfjit.passes.ir.dataflow_graph import Node
    from tfjit.passes.loops.list_aliases import AliasClass, ListAliases


@dataclass(frozen=True, slots=True)
class Dense:
    """The array for an alias class; handles become unused numbers."""

    dtype: DType
    shape: tuple[int, ...]
    is_handle: bool = False


class DenseShapes:
    """Finds the shapes of alias classes as dense arrays."""

    def __init__(self, aliases: ListAliases) -> None:
        self._aliases = aliases

    def _value(self, scope: Scope, tensor: tuple[str, int]) -> np.ndarray | None:
        found = constant_value(scope.graph, *tensor)
        return found if found is not None else scope.ctx.values.get(tensor)

    def of_list(self, alias_class: AliasClass) -> Dense:
        """Return the array of a list's class. Raises Declined."""
        counts: set[int] = set()
        elements: list[Shape] = []
        dtypes: set[DType] = set()
        self._expect_bodies(alias_class)
        for scope, node in alias_class.uses:
            inputs = scope.graph.inputs(node.name)
            if node.op in INDEXED:
                self._expect_scalar(scope, inputs[1])
            if "element_dtype" in node.attrs:
                dtypes.add(node.attrs["element_dtype"])
            if node.op == "TensorListFromTensor":
                shape = tensor_shape(scope.graph, *inputs[0])
                if not is_static(shape) or not shape:
                    raise Declined(f"the shape of '{inputs[0][0]}' is not known")
                counts.add(shape[0] or 0)
                elements += [shape[1:], self._element_shape(scope, inputs[1])]
            elif node.op == "TensorListReserve":
                count = self._value(scope, inputs[1])
                if count is None or count.ndim or count < 0:
                    raise Declined("its length is not known")
                counts.add(int(count))
                elements.append(self._element_shape(scope, inputs[0]))
            elif node.op == "TensorListSetItem":
                if node.attrs.get("resize_if_index_out_of_bounds"):
                    raise Declined("it may grow")
                elements.append(tensor_shape(scope.graph, *inputs[2]))
            elif node.op in ("TensorListGetItem", "TensorListStack"):
                elements.append(
                    self._element_shape(scope, inputs[2 if node.op == "TensorListGetItem" else 1])
                )
        for scope, node in alias_class.uses:
            if node.op == "TensorListStack" and node.attrs.get("num_elements", -1) not in (
                -1,
                *counts,
            ):
                raise Declined(f"'{node.name}' requires another length")
            declares = node.op != "TensorListStack" or is_static(
                self._element_shape(scope, scope.graph.inputs(node.name)[1])
            )
            if 0 in counts and not declares:
                raise Declined("it has no elements, and their shape is not declared")
        return self._dense(counts, elements, dtypes)

    def _element_shape(self, scope: Scope, tensor: tuple[str, int]) -> Shape:
        value = self._value(scope, tensor)
        if value is None or (value.ndim == 0 and int(value) == -1):
            return None
        if value.ndim != 1 or (value < -1).any():
            raise Declined(f"'{tensor[0]}' is not a shape")
        return tuple(None if size < 0 else int(size) for size in value)

    def _dense(self, counts: set[int], elements: list[Shape], dtypes: set[DType]) -> Dense:
        known = [shape for shape in elements if shape is not None and None not in shape]
        if not known:
            raise Declined("the shape of its elements is not known")
        if (
            len(counts) != 1
            or len(dtypes) != 1
            or not all(is_compatible(shape, known[0]) for shape in elements)
        ):
            raise Declined("its elements differ")
        dtype = next(iter(dtypes))
        if not dtype.is_numpy_compatible or dtype.name == "string":
            raise Declined(f"its elements are of type {dtype.name}")
        return Dense(dtype, (counts.pop(), *(size or 0 for size in known[0])))

    def _expect_bodies(self, alias_class: AliasClass) -> None:
        """Raise Declined for a list outside of loops and branches.

        Nothing would be gained there, and the kernels of lists report every error.
        """
        if all(scope == id(self._aliases.top) for scope, _, _ in alias_class.tensors):
            raise Declined("no loop or branch uses it")

    def _expect_scalar(self, scope: Scope, tensor: tuple[str, int]) -> None:
        if tensor_shape(scope.graph, *tensor) != ():
            raise Declined(f"the index '{tensor[0]}' is not known to be a scalar")

    def of_array(self, alias_class: AliasClass) -> Dense:
        """Return the array of a flow; of a handle, the number.

        Raises Declined.
        """
        members = self._aliases.members
        made = [(scope, node) for scope, node in alias_class.uses if node.op == "TensorArrayV3"]
        if len(made) != 1:
            raise Declined("several arrays meet")
        scope, array = made[0]
        handle = self._aliases.find(scope, array.name, 0)
        flow = self._aliases.find(scope, array.name, 1)
        if members[handle].foreign or members[flow].foreign:
            raise Declined(members[handle].foreign or members[flow].foreign)
        if (
            handle == flow
            or len({id(node) for _, node in members[handle].uses if node.op == "TensorArrayV3"})
            != 1
        ):
            raise Declined("several arrays meet")
        dense = self._array_shape(scope, array, members[flow])
        for user, node in members[handle].uses:
            list_inputs = FLOWS[node.op][0]
            inputs = user.graph.inputs(node.name)
            if any(self._aliases.find(user, *inputs[k]) != flow for k in list_inputs):
                raise Declined(f"'{node.name}' uses another flow")
        return (
            Dense(as_dtype("float32"), (), True)
            if self._aliases.find(scope, array.name, 0) in self._aliases.roots(alias_class)
            else dense
        )

    def _array_shape(self, scope: Scope, array: Node, alias_class: AliasClass) -> Dense:
        if array.attrs.get("dynamic_size"):
            raise Declined("it may grow")
        size = self._value(scope, scope.graph.inputs(array.name)[0])
        if size is None or size.ndim or size < 0:
            raise Declined("its size is not known")
        count = int(size)
        declared = array.attrs.get("element_shape")
        elements: list[Shape] = [declared.dims_tuple] if declared is not None else []
        self._expect_bodies(alias_class)
        everything = np.ones(count, bool)
        written: list[tuple[np.ndarray, bool]] = []
        read: list[np.ndarray] = []
        for user, node in alias_class.uses:
            inputs = user.graph.inputs(node.name)
            if node.op in INDEXED:
                self._expect_scalar(user, inputs[1])
            if node.op == "TensorArrayReadV3" and array.attrs.get("clear_after_read"):
                read.append(self._rows(scope, user, node, inputs[1], count)[0])
            if node.op == "TensorArrayScatterV3":
                shape = tensor_shape(user.graph, *inputs[2])
                self._expect_whole(scope, user, node, inputs[1], count)
                elements.append(None if shape is None else shape[1:])
                written.append((everything, True))
            elif node.op == "TensorArrayGatherV3":
                self._expect_whole(scope, user, node, inputs[1], count)
                read.append(everything)
            elif node.op == "TensorArrayWriteV3":
                elements.append(tensor_shape(user.graph, *inputs[2]))
                written.append(self._rows(scope, user, node, inputs[1], count))
        if _overlap([rows for rows, _ in written]):
            raise Declined("its elements may be written twice")
        if array.attrs.get("clear_after_read") and _overlap(read):
            raise Declined("its elements may be read twice")
        surely = sum((rows for rows, always in written if always), np.zeros(count, bool))
        if not surely.all() and not is_static(elements[0] if declared is not None else None):
            raise Declined("an element without a declared shape may be read before it is written")
        return self._dense({count}, elements, {array.attrs["dtype"]})

    def _expect_whole(
        self, owner: Scope, scope: Scope, node: Node, indices: tuple[str, int], count: int
    ) -> None:
        value = self._value(scope, indices)
        if value is None or not np.array_equal(value, np.arange(count)):
            raise Declined(f"'{node.name}' does not read all elements in order")
        if scope is not owner and (scope.key != "cond" and node.op == "TensorArrayScatterV3"):
            raise Declined(f"'{node.name}' may write its elements twice")

    def _rows(
        self, owner: Scope, scope: Scope, node: Node, index: tuple[str, int], count: int
    ) -> tuple[np.ndarray, bool]:
        """Return the rows that an op uses, and whether all surely.

        No row comes twice. owner: the scope that makes the array. An op there uses one row; an op
        in the body of a loop there uses the rows of an induction variable.
        """
        rows = np.zeros(count, bool)
        if scope is owner:
            value = self._value(scope, index)
            if value is None:
                return np.ones(count, bool), False
            rows[[k for k in (int(value),) if 0 <= k < count]] = True
            return rows, True
        if scope.key != "body" or scope not in owner.children.get(scope.node, ()):
            raise Declined(f"'{node.name}' is not in a loop around which the array is made")
        loop = read_loop(owner, scope.node)
        offset, k = counted_from(scope, index)
        if k in loop.steps and k not in loop.induction_variables:
            return np.ones(count, bool), False
        variable = loop.induction_variables.get(k)
        if variable is None:
            raise Declined(f"'{node.name}' is not indexed by its loop's counter")
        first, last = (
            variable.start + offset,
            variable.start + offset + variable.step * (loop.at_most or 0),
        )
        if loop.at_most is None:
            last = count if variable.step > 0 else -1
        taken = range(first, last, variable.step)
        if variable.step < 0:
            taken = taken[::-1]
        low = taken[max(-(taken.start // taken.step), 0) :] if taken.start < 0 else taken
        rows[low.start : max(low.stop, 0) : low.step] = True
        return rows, loop.trips is not None


def _overlap(taken: list[np.ndarray]) -> bool:
    """Return whether some row is in two of the sets."""
    return bool(taken) and bool((np.sum(taken, axis=0) > 1).any())
