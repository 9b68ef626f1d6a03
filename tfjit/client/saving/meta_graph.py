"""MetaGraphDefs: a graph with its collections and its saver, written and read."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tfjit.client.variables.variables import Variable
from tfjit.framework import errors
from tfjit.framework.graphs.default_graph import get_default_graph
from tfjit.framework.graphs.graph import Graph
from tfjit.framework.graphs.graph_def import import_graph_def
from tfjit.framework.graphs.graph_keys import GraphKeys
from tfjit.framework.graphs.operation import Operation, Tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Message

log = logging.getLogger("tfjit.meta_graph")

_VARIABLES: Final = frozenset(
    {
        GraphKeys.GLOBAL_VARIABLES,
        GraphKeys.TRAINABLE_VARIABLES,
        GraphKeys.LOCAL_VARIABLES,
        GraphKeys.MODEL_VARIABLES,
        GraphKeys.MOVING_AVERAGE_VARIABLES,
        GraphKeys.METRIC_VARIABLES,
        GraphKeys.CONCATENATED_VARIABLES,
        "global_step",
    }
)
# Collections that are of use only in the process that builds a graph.
_UNSAVED: Final = frozenset({"_step", "update_ops_tower"})


def export_meta_graph(
    filename: str | os.PathLike[str] | None = None,
    meta_info_def: Message = None,
    graph_def: Message | None = None,
    saver_def: Message | None = None,
    collection_list: Sequence[str] | None = None,
    as_text: bool = False,
    graph: Graph | None = None,
    export_scope: str | None = None,
    clear_devices: bool = False,
    clear_extraneous_savers: bool = False,
    strip_default_attrs: bool = False,
    save_debug_info: bool = False,
    **kwargs: object,
) -> Message:
    """Return the MetaGraphDef of a graph, and write it to `filename`.

    graph: the default graph by default. filename: written only where one is given. collection_list:
    keys of the collections to keep (default: all that can be written). clear_devices: leave devices
    out. clear_extraneous_savers: keep no savers but saver_def. strip_default_attrs: leave out attrs
    that have their default values. Raises ValueError for an export_scope, which takes part of a
    graph, and for save_debug_info, which writes stack traces to a separate file: these are not
    supported.
    """
    from tfjit.protos import MetaGraphDef

    if export_scope:
        raise ValueError(
            "export_scope is not supported: the whole graph is exported. Leave it out."
        )
    if save_debug_info:
        raise ValueError(
            "save_debug_info is not supported: no stack traces are written. Leave it out."
        )
    graph = graph if graph is not None else get_default_graph()
    meta = MetaGraphDef()
    if meta_info_def is not None:
        meta.meta_info_def.MergeFromString(meta_info_def.SerializeToString())
    meta.graph_def.ParseFromString(
        (
            graph_def if graph_def is not None else graph.as_graph_def(add_shapes=True)
        ).SerializeToString()
    )
    for node in meta.graph_def.node:
        if clear_devices:
            node.device = ""
    if strip_default_attrs:
        _strip_defaults(meta.graph_def)
        meta.meta_info_def.stripped_default_attrs = True
    _list_ops(meta)
    if saver_def is not None:
        meta.saver_def.ParseFromString(saver_def.SerializeToString())
    keys = collection_list if collection_list is not None else graph.get_all_collection_keys()
    for key in keys:
        if key not in _UNSAVED and not (clear_extraneous_savers and key == GraphKeys.SAVERS):
            _fill_collection(meta, key, graph.get_collection(key))
    if filename is not None:
        _write(meta, os.fspath(filename), as_text)
    return meta


def _write(meta: Message, filename: str, as_text: bool) -> None:
    from google.protobuf import text_format

    Path(filename).parent.mkdir(parents=True, exist_ok=True)
    temporary = f"{filename}.tmp{os.getpid()}"
    Path(temporary).write_bytes(
        text_format.MessageToString(meta).encode() if as_text else meta.SerializeToString()
    )
    os.replace(temporary, filename)


def _list_ops(meta: Message) -> None:
    """Add the definitions of the ops that the graph uses, by name."""
    from tfjit.framework.op_defs.op_registry import registry

    used = {node.op for node in meta.graph_def.node}
    for function in meta.graph_def.library.function:
        used.update(node.op for node in function.node_def)
    for op_type in sorted(used):
        definition = registry.lookup(op_type)
        if definition is not None:
            meta.meta_info_def.stripped_op_list.op.add().CopyFrom(definition.to_proto())


def _strip_defaults(graph_def: Message) -> None:
    from tfjit.framework.op_defs import attrs as attr_values
    from tfjit.framework.op_defs.op_registry import registry

    for node in graph_def.node:
        definition = registry.lookup(node.op)
        for attr in definition.attrs if definition is not None else ():
            if (
                attr.has_default
                and attr.name in node.attr
                and attr_values.equal(attr_values.from_proto(node.attr[attr.name]), attr.default)
            ):
                del node.attr[attr.name]


def _fill_collection(meta: Message, key: str, items: Sequence[Any]) -> None:
    """Write one collection.

    It is left out, with a warning in the log, where its items cannot be written.
    """
    if not items:
        return
    messages = [item.to_proto() for item in items if hasattr(item, "to_proto")]
    target = meta.collection_def[key]
    if len(messages) == len(items):
        target.bytes_list.value.extend(m.SerializeToString() for m in messages if m is not None)
    elif all(isinstance(item, (str, bytes)) for item in items):
        target.bytes_list.value.extend(
            item.encode() if isinstance(item, str) else item for item in items
        )
    elif all(isinstance(item, int) for item in items):
        target.int64_list.value.extend(items)
    elif all(isinstance(item, (int, float)) for item in items):
        target.float_list.value.extend(items)
    elif all(isinstance(item, (Tensor, Operation)) for item in items):
        target.node_list.value.extend(item.name for item in items)
    elif all(hasattr(item, "SerializeToString") for item in items):
        for item in items:
            target.any_list.value.add().Pack(item)
    else:
        del meta.collection_def[key]
        log.warning("collection %r is not written: a %s cannot be", key, type(items[0]).__name__)


def read_meta_graph_file(filename: str | os.PathLike[str]) -> Any:
    """Return the MetaGraphDef in a file, binary or text.

    Raises NotFoundError or InvalidArgumentError.
    """
    from tfjit.client.session.model_file import read_model

    path = os.fspath(filename)
    if not os.path.isfile(path):
        raise errors.NotFoundError(None, None, f"File {path} does not exist.")
    message = read_model(path).message
    if message.DESCRIPTOR.name != "MetaGraphDef":
        raise errors.InvalidArgumentError(
            None, None, f"{path} holds a {message.DESCRIPTOR.name}, not a MetaGraphDef."
        )
    return message


def _as_meta_graph(source: Any) -> Any:
    from tfjit.protos import MetaGraphDef

    if isinstance(source, (str, os.PathLike)):
        return read_meta_graph_file(source)
    if isinstance(source, MetaGraphDef):
        return source
    if isinstance(source, bytes):
        return MetaGraphDef.FromString(source)
    if getattr(getattr(source, "DESCRIPTOR", None), "name", "") == "MetaGraphDef":
        return MetaGraphDef.FromString(source.SerializeToString())
    raise TypeError(f"expected a MetaGraphDef or the name of a file, got {type(source).__name__}")


def import_scoped_meta_graph(
    meta_graph_or_file: Any,
    clear_devices: bool = False,
    graph: Graph | None = None,
    import_scope: str | None = None,
    input_map: Mapping[str, Any] | None = None,
    return_elements: Sequence[str] | None = None,
    restore_collections_predicate: Any = None,
) -> tuple[dict[str, Variable], Any]:
    """Add a MetaGraphDef to a graph.

    Returns its variables by name, and the message.

    import_scope: put before all names. restore_collections_predicate: key -> whether to restore
    that collection.
    """
    meta = _as_meta_graph(meta_graph_or_file)
    graph = graph if graph is not None else get_default_graph()
    graph_def = meta.graph_def
    if clear_devices:
        graph_def = type(graph_def).FromString(graph_def.SerializeToString())
        for node in graph_def.node:
            node.device = ""
    with graph.as_default():
        import_graph_def(
            graph_def,
            input_map,
            return_elements,
            name=import_scope or "",
            producer_op_list=meta.meta_info_def.stripped_op_list,
        )
        variables: dict[str, Variable] = {}
        for key in sorted(meta.collection_def):
            if restore_collections_predicate is None or restore_collections_predicate(key):
                _restore_collection(
                    graph, key, meta.collection_def[key], import_scope or "", variables
                )
    return {v._shared_name: v for v in variables.values()}, meta


def _restore_collection(
    graph: Graph, key: str, field: Any, scope: str, variables: dict[str, Variable]
) -> None:
    kind = field.WhichOneof("kind")
    if kind is None:
        return
    values = getattr(field, kind).value
    if kind == "node_list":
        for name in values:
            full = f"{scope}/{name}" if scope else name
            graph.add_to_collection(key, graph.as_graph_element(full))
    elif kind in ("int64_list", "float_list") or kind == "any_list":
        for value in values:
            graph.add_to_collection(key, value)
    elif key in _VARIABLES:
        _restore_variables(graph, key, values, scope, variables)
    elif key == GraphKeys.QUEUE_RUNNERS:
        from tfjit.client.training.queue_runner import QueueRunner
        from tfjit.protos import QueueRunnerDef

        for data in values:
            graph.add_to_collection(
                key, QueueRunner.from_proto(QueueRunnerDef.FromString(data), scope or None)
            )
    elif key == GraphKeys.SAVERS:
        from tfjit.client.saving.saver import Saver
        from tfjit.protos import SaverDef

        for data in values:
            graph.add_to_collection(key, Saver.from_proto(SaverDef.FromString(data), scope or None))
    elif key in (GraphKeys.COND_CONTEXT, GraphKeys.WHILE_CONTEXT):
        from tfjit.ops.control_flow.cond_context import CondContext
        from tfjit.ops.control_flow.while_context import WhileContext

        with graph.as_default():
            for data in values:
                context = (
                    WhileContext.from_bytes(data, scope)
                    if key == GraphKeys.WHILE_CONTEXT
                    else CondContext.from_bytes(data, scope)
                )
                graph.add_to_collection(key, context)
    elif key not in _UNSAVED:
        for data in values:
            graph.add_to_collection(key, f"{scope}/{data.decode()}" if scope else data)


def _restore_variables(
    graph: Graph, key: str, values: Sequence[bytes], scope: str, variables: dict[str, Variable]
) -> None:
    """Restore variables over nodes that the graph has.

    There is one object for a variable that several collections list.
    """
    from tfjit.protos import VariableDef

    for data in values:
        message = VariableDef.FromString(data)
        if message.variable_name not in variables:
            variables[message.variable_name] = Variable.from_proto(message, scope or None)
        graph.add_to_collection(key, variables[message.variable_name])
