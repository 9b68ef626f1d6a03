"""A dataset's node and specs, and the form of all transformations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfjit.client.datasets.elements import Elements, dtypes_of, shapes_of
from tfjit.framework.graphs.default_graph import get_default_graph
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.graphs.random_seed import DEFAULT_GRAPH_SEED, get_seed
from tfjit.framework.op_defs.op_registry import registry
from tfjit.framework.types import dtypes as dt
from tfjit.ops.core.apply import tensor
from tfjit.ops.core.convert import convert_to_tensor

if TYPE_CHECKING:
    from tfjit.client.datasets.dataset import Dataset
    from tfjit.client.datasets.options import Options
    from tfjit.framework.graphs.typing import Structure, TensorLike

AUTOTUNE = -1  # for parallel calls and buffers: the runtime chooses


class DatasetBase(Elements):
    """A node that makes a dataset.

    variant_tensor: its scalar output. element_spec: the structure of specs of an element.
    """

    _options: Options | None = None

    def __init__(self, variant_tensor: Tensor, element_spec: Structure) -> None:
        self._variant_tensor = variant_tensor
        self._element_spec = element_spec

    def __repr__(self) -> str:
        return f"<{type(self).__name__} element_spec={self._element_spec}>"

    def __bool__(self) -> bool:
        return True

    def __iter__(self) -> Structure:
        raise RuntimeError(
            "`tf.data.Dataset` only supports Python-style iteration in eager mode or within "
            "tf.function. Use `tf.data.make_one_shot_iterator(dataset).get_next()`."
        )

    def __len__(self) -> int:
        raise TypeError(
            "`tf.data.Dataset` only supports `len` in eager mode. Use `tf.data.Dataset.cardinality`"
            " and run the graph."
        )

    def _then(
        self, op_type: str, name: str | None = None, spec: Structure = None, **arguments: object
    ) -> Dataset:
        """Return the dataset of a node with this one as input.

        spec: of its elements, this dataset's by default.
        """
        made = dataset_of(
            op_type,
            name,
            self._element_spec if spec is None else spec,
            input_dataset=self._variant_tensor,
            **arguments,
        )
        made._options = self._options
        return made


def dataset_of(op_type: str, name: str | None, spec: Structure, **arguments: object) -> Dataset:
    """Return the dataset of a new node.

    spec: of its elements. arguments: of the node, without the attrs that follow from `spec`.
    """
    from tfjit.client.datasets.dataset import Dataset

    attrs = registry.require(op_type, "").attr_by_name
    if "output_types" in attrs:
        arguments["output_types"] = dtypes_of(spec)
    if "output_shapes" in attrs:
        arguments["output_shapes"] = shapes_of(spec)
    return Dataset(scalar(tensor(op_type, name, **arguments)), spec)


def scalar(value: Tensor) -> Tensor:
    """Return a tensor that is known to be a scalar."""
    value.set_shape(())
    return value


def counted(value: TensorLike, name: str) -> Tensor:
    """Return a number of elements as a scalar int64 tensor."""
    return convert_to_tensor(value, dtype=dt.int64, name=name)


def order(deterministic: bool | None) -> str:
    """Return the attr that fixes the order of elements."""
    return "default" if deterministic is None else "true" if deterministic else "false"


def seeds(seed: TensorLike | None) -> tuple[Tensor, Tensor]:
    """Return the tensors of a dataset's two seeds.

    Both are 0 for a stream that differs each time. seed: of the user, a number, a tensor or None.
    """
    if isinstance(seed, Tensor):
        graph_seed = get_default_graph().seed
        first = DEFAULT_GRAPH_SEED if graph_seed is None else graph_seed
        second = tensor("Cast", None, x=seed, DstT=dt.int64)
        return counted(first, "seed"), second
    numbers = get_seed(None if seed is None else int(seed))  # type: ignore[arg-type]
    return counted(numbers[0] or 0, "seed"), counted(numbers[1] or 0, "seed2")


__all__ = ["AUTOTUNE", "DatasetBase", "counted", "dataset_of", "order", "scalar", "seeds"]
