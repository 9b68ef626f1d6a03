"""Summary operations: strings that hold Summary messages, for `FileWriter.add_summary`."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tfjit.framework.graphs.default_graph import add_to_collections, get_collection, name_scope
from tfjit.framework.graphs.graph_keys import GraphKeys
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.types import dtypes
from tfjit.ops.core.apply import tensor
from tfjit.ops.core.convert import convert_to_tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Message, TensorLike

log = logging.getLogger("tfjit.summary")
_ILLEGAL = re.compile(r"[^-/\w\.]")


def _clean(name: str) -> str:
    """Return a name that scopes can have."""
    cleaned = _ILLEGAL.sub("_", name).lstrip("/")
    if cleaned != name:
        log.info("Summary name %s is illegal; using %s instead.", name, cleaned)
    return cleaned


@contextmanager
def _scope(name: str, family: str | None) -> Iterator[tuple[str, str]]:
    """Enter the scope of a summary; yield (tag, name of the operation)."""
    cleaned = _clean(name)
    base = cleaned if family is None else f"{_clean(family)}/{cleaned}"
    with name_scope(base) as scope:
        tag = scope.rstrip("/")
        yield (tag if family is None else f"{_clean(family)}/{tag}"), scope


def _listed(summary: Tensor, collections: Sequence[str]) -> Tensor:
    add_to_collections([GraphKeys.SUMMARIES] if collections is None else collections, summary)
    return summary


def scalar(
    name: str, tensor: TensorLike, collections: Any = None, family: str | None = None
) -> Tensor:
    """Return a summary of a number.

    family: a prefix of its tag. collections: where it is listed (SUMMARIES).
    """
    value = convert_to_tensor(tensor)
    with _scope(name, family) as (tag, scope):
        return _listed(_make("ScalarSummary", scope, tags=tag, values=value), collections)


def histogram(
    name: str, values: object, collections: Any = None, family: str | None = None
) -> Tensor:
    """Return a summary of the distribution of numbers."""
    value = convert_to_tensor(values)
    with _scope(name, family) as (tag, scope):
        return _listed(_make("HistogramSummary", scope, tag=tag, values=value), collections)


def image(
    name: str,
    tensor: object,
    max_outputs: int = 3,
    collections: Any = None,
    family: str | None = None,
) -> Tensor:
    """Return a summary of pictures.

    Pictures are [batch, height, width, 1, 3 or 4 channels], uint8 or scaled from floats; at most
    max_outputs of them.
    """
    value = convert_to_tensor(tensor)
    with _scope(name, family) as (tag, scope):
        return _listed(
            _make("ImageSummary", scope, tag=tag, tensor=value, max_images=max_outputs), collections
        )


def audio(
    name: str,
    tensor: object,
    sample_rate: object,
    max_outputs: int = 3,
    collections: Any = None,
    family: str | None = None,
) -> Tensor:
    """Return a summary of sounds.

    Sounds are float32 [batch, frames] or [batch, frames, channels], between -1 and 1; at most
    max_outputs of them. sample_rate: frames a second, a number or a scalar tensor.
    """
    value = convert_to_tensor(tensor)
    with _scope(name, family) as (tag, scope):
        rate = convert_to_tensor(sample_rate, dtype=dtypes.float32, name="sample_rate")
        made = _make(
            "AudioSummaryV2",
            scope,
            tag=tag,
            tensor=value,
            sample_rate=rate,
            max_outputs=max_outputs,
        )
        return _listed(made, collections)


def tensor_summary(
    name: str,
    tensor: TensorLike,
    summary_description: Message = None,
    collections: Any = None,
    summary_metadata: Message = None,
    family: str | None = None,
    display_name: str | None = None,
) -> Tensor:
    """Return a summary of any tensor.

    summary_metadata: a SummaryMetadata message: it names the plugin that shows the summary.
    """
    from tfjit.protos import SummaryMetadata

    metadata = (
        SummaryMetadata.FromString(summary_metadata.SerializeToString())
        if summary_metadata is not None
        else SummaryMetadata()
    )
    if display_name is not None:
        metadata.display_name = display_name
    if summary_description is not None:
        metadata.summary_description = summary_description
    value = convert_to_tensor(tensor)
    with _scope(name, family) as (tag, scope):
        made = _make(
            "TensorSummaryV2",
            scope,
            tag=tag,
            tensor=value,
            serialized_summary_metadata=metadata.SerializeToString(),
        )
        return _listed(made, collections)


def text(name: str, tensor: TensorLike, collections: Sequence[str] | None = None) -> Tensor:
    """Return a summary of strings. Raises ValueError for other dtypes."""
    from tfjit.protos import SummaryMetadata

    value = convert_to_tensor(tensor)
    if value.dtype.base_dtype is not dtypes.string:
        raise ValueError(f"Expected tensor {value.name} to have dtype string, got {value.dtype}")
    metadata = SummaryMetadata()
    metadata.plugin_data.plugin_name = "text"
    return tensor_summary(name, value, collections=collections, summary_metadata=metadata)


def merge(
    inputs: Sequence[object], collections: Sequence[str] | None = None, name: str | None = None
) -> Tensor:
    """Return one summary of several.

    Its run raises InvalidArgumentError when two have one tag.
    """
    with name_scope(name, "Merge") as scope:
        made = _make("MergeSummary", scope, inputs=list(inputs))
        add_to_collections(collections or [], made)
        return made


def merge_all(
    key: str = GraphKeys.SUMMARIES, scope: str | None = None, name: str | None = None
) -> Tensor | None:
    """Return one summary of all in the graph's collection, or None."""
    found = get_collection(key, scope)
    return merge(found, name=name) if found else None


def all_v2_summary_ops() -> list[object]:
    """Return the operations that write to writers of TensorFlow 2.

    Imported graphs may list some in a collection; no function of `tfjit.summary` makes any.
    """
    return get_collection(GraphKeys._SUMMARY_COLLECTION)


def get_summary_description(node_def: Message) -> Message:
    """Return the SummaryDescription in the `description` attr of a TensorSummary's NodeDef.

    Raises ValueError for a node of another op type.
    """
    from google.protobuf import json_format

    from tfjit.protos import SummaryDescription

    if node_def.op != "TensorSummary":
        raise ValueError(f"Can't get_summary_description on {node_def.op}")
    description = SummaryDescription()
    json_format.Parse(node_def.attr["description"].s.decode(), description)
    return description


def initialize(graph: object = None, session: object = None) -> None:
    """Raise RuntimeError: no writer of TensorFlow 2 is the default one.

    TensorFlow's function makes the writer that its second version has set by `as_default`, of
    which there is none here.
    """
    raise RuntimeError("No default tf.contrib.summary.SummaryWriter found")


def _make(op_type: str, scope: str, **arguments: object) -> Tensor:
    return tensor(op_type, scope, **arguments)
