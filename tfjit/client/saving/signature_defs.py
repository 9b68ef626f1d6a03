"""Describe the inputs and outputs of a SavedModel as SignatureDefs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tfjit.client.saving.saved_model_constants import signature_constants
from tfjit.framework.graphs.default_graph import get_default_graph
from tfjit.framework.graphs.operation import Tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.graph import Graph
    from tfjit.framework.graphs.typing import Message


def build_tensor_info(tensor: Any) -> Message:
    """Return the TensorInfo of a tensor: name, dtype, static shape."""
    from tfjit.protos import TensorInfo

    element = tensor if isinstance(tensor, Tensor) else tensor._as_graph_element()
    dtype: Any = element.dtype.base_dtype.as_datatype_enum  # the number of an enum
    return TensorInfo(name=element.name, dtype=dtype, tensor_shape=element.shape.as_proto())


def get_tensor_from_tensor_info(
    tensor_info: Message, graph: Graph | None = None, import_scope: str | None = None
) -> Tensor:
    """Return the tensor of a graph that a TensorInfo names.

    Raises KeyError when it has none of that name.
    """
    graph = graph if graph is not None else get_default_graph()
    name = f"{import_scope}/{tensor_info.name}" if import_scope else tensor_info.name
    found: Tensor = graph.as_graph_element(name, allow_tensor=True, allow_operation=False)
    return found


def build_signature_def(
    inputs: Mapping[str, Any] | None = None,
    outputs: Mapping[str, Any] | None = None,
    method_name: str | None = None,
    defaults: Mapping[str, Any] | None = None,
) -> Message:
    """Return a SignatureDef of TensorInfos by name. defaults: constants by input.

    Raises ValueError for one that is no constant.
    """
    from tfjit.protos import SignatureDef

    made = SignatureDef(method_name=method_name or "")
    for field, given in ((made.inputs, inputs), (made.outputs, outputs)):
        for key, info in (given or {}).items():
            field[key].ParseFromString(info.SerializeToString())
    for key, default in (defaults or {}).items():
        if default.op.type != "Const":
            raise ValueError(
                f"Unable to convert object {default} of type {type(default)} to TensorProto."
            )
        made.defaults[key].ParseFromString(default.op.get_attr("value").SerializeToString())
    return made


def predict_signature_def(inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> Message:
    """Return the signature of a model from some tensors to others.

    Raises ValueError when one side has none.
    """
    for what, side in (("inputs", inputs), ("outputs", outputs)):
        if not side:
            raise ValueError(f"Prediction {what} cannot be None or empty.")
    taken, given = (
        {key: build_tensor_info(t) for key, t in side.items()} for side in (inputs, outputs)
    )
    return build_signature_def(taken, given, signature_constants.PREDICT_METHOD_NAME)


def regression_signature_def(examples: Any, predictions: Any) -> Message:
    """Return the signature of a model from serialized examples to float predictions.

    Raises ValueError for other dtypes.
    """
    _check_examples("Regression", examples)
    if predictions.dtype.base_dtype.name != "float32":
        raise ValueError(
            "Regression output tensors must be of type float. Received tensor with dtype "
            f"{predictions.dtype.name}"
        )
    return build_signature_def(
        {signature_constants.REGRESS_INPUTS: build_tensor_info(examples)},
        {signature_constants.REGRESS_OUTPUTS: build_tensor_info(predictions)},
        signature_constants.REGRESS_METHOD_NAME,
    )


def classification_signature_def(examples: Any, classes: Any, scores: Any) -> Message:
    """Return the signature of a classifier of serialized examples.

    Its outputs are classes (strings), scores (floats) or both. Raises ValueError otherwise.
    """
    _check_examples("Classification", examples)
    if classes is None and scores is None:
        raise ValueError("Classification must have at least one of 'classes' or 'scores' outputs.")
    outputs = {}
    for key, tensor, dtype in (
        (signature_constants.CLASSIFY_OUTPUT_CLASSES, classes, "string"),
        ("scores", scores, "float32"),
    ):
        if tensor is not None:
            if tensor.dtype.base_dtype.name != dtype:
                raise ValueError(
                    f"Classification {key} must be of type {dtype}. Received tensor with dtype "
                    f"{tensor.dtype.name}"
                )
            outputs[key] = build_tensor_info(tensor)
    inputs = {signature_constants.CLASSIFY_INPUTS: build_tensor_info(examples)}
    return build_signature_def(inputs, outputs, signature_constants.CLASSIFY_METHOD_NAME)


def _check_examples(kind: str, examples: Any) -> None:
    if examples is None:
        raise ValueError(f"{kind} examples cannot be None.")
    if not isinstance(examples, Tensor) or examples.dtype.base_dtype.name != "string":
        raise ValueError(f"{kind} inputs must be a tensor of strings, got {examples!r}")
