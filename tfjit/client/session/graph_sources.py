"""A Session's graph, config and run options in tfjit's own form.

The sources are the forms that a caller may pass.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfjit.client.session.tensorflow_interop import tensorflow_default_graph
from tfjit.framework import errors
from tfjit.framework.graphs.default_graph import get_default_graph, is_unused
from tfjit.framework.graphs.graph import Graph
from tfjit.framework.graphs.graph_def import import_graph_def

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Message, Structure


def graph_from(source: object) -> Structure:
    """Return the graph of a session.

    source: None (the default graph; TensorFlow's where only that has operations), a tfjit Graph or
    TensorFlow `tf.Graph` (returned as it is, and followed as it grows), a GraphDef or MetaGraphDef
    message of tfjit or TensorFlow, the bytes of one, or a path to a file holding one. Raises
    TypeError for anything else, InvalidArgumentError when the bytes are no graph, NotFoundError for
    a missing file.
    """
    if source is None:
        theirs = tensorflow_default_graph() if is_unused() else None
        return theirs if theirs is not None else get_default_graph()
    if isinstance(source, Graph):
        return source
    if hasattr(source, "as_graph_def") and hasattr(source, "as_graph_element"):
        return source
    graph = Graph()
    with graph.as_default():
        import_graph_def(graph_def_from(source), name="")
    return graph


def graph_def_from(source: Any) -> Message:
    """Return the GraphDef in a message, its bytes, or a file.

    MetaGraphDefs give their graph_def.
    """
    from tfjit.client.session.model_file import parse_model, read_model
    from tfjit.protos import GraphDef

    if isinstance(source, (str, os.PathLike)):
        path = Path(source)
        if not path.exists():
            raise errors.NotFoundError(None, None, f"{path}; No such file or directory")
        model = read_model(path, faulty=True)
        if model.kind == "SavedModel":
            raise errors.UnimplementedError(
                None,
                None,
                f"{path} is a SavedModel, with variables to restore: give its folder to "
                "tfjit.saved_model.load(session, tags, folder).",
            )
        return model.graph_def
    if isinstance(source, (bytes, bytearray, memoryview)):
        content = bytes(source)
        if not content:
            return GraphDef()
        _, source = parse_model(content, faulty=True)
    descriptor = getattr(source, "DESCRIPTOR", None)
    if descriptor is None:
        raise TypeError(f'Argument `graph` must be a tf.Graph, but got "{type(source).__name__}"')
    if descriptor.name == "MetaGraphDef":
        source = source.graph_def
    elif descriptor.name != "GraphDef":
        raise TypeError(
            f"graph must be a GraphDef or MetaGraphDef message, but got {descriptor.full_name}"
        )
    return (
        source if isinstance(source, GraphDef) else GraphDef.FromString(source.SerializeToString())
    )


def to_config(config: Message) -> Message:
    """Return a ConfigProto as tfjit's; None stays None.

    config: a message of tfjit or TensorFlow, or its bytes.
    """
    return _to_message(config, "ConfigProto", "config")


def interactive_config(config: Message, options: Message) -> Message:
    """Return the ConfigProto of an interactive session.

    Only the nodes of a run are placed, since a user tries out nodes that may never be placeable.
    """
    from tfjit.protos import ConfigProto

    made = ConfigProto()
    given = to_config(config if config is not None or options is None else options.config)
    if given is not None:
        made.CopyFrom(given)
    else:
        made.gpu_options.allow_growth = True
        made.graph_options.rewrite_options.fail_on_optimizer_errors = True  # as without a config
    made.graph_options.place_pruned_graph = True
    return made


def soft_config() -> Message:
    """Return the ConfigProto of a session without one over TensorFlow's graph."""
    from tfjit.protos import ConfigProto

    made = ConfigProto(allow_soft_placement=True)
    made.graph_options.rewrite_options.fail_on_optimizer_errors = True  # as without a config
    return made


def to_run_options(options: Message) -> Message:
    """Return RunOptions of tfjit or TensorFlow as tfjit's; None stays."""
    return _to_message(options, "RunOptions", "options")


def to_callable_options(options: Message) -> Message:
    """Return CallableOptions as tfjit's.

    options: a message of tfjit or TensorFlow, or its bytes.
    """
    return _to_message(options, "CallableOptions", "callable_options")


def _to_message(value: Any, name: str, argument: str) -> Message:
    if value is None:
        return None
    from tfjit import protos

    kind = getattr(protos, name)
    if isinstance(value, kind):
        return value
    if isinstance(value, bytes):
        return kind.FromString(value)
    if getattr(getattr(value, "DESCRIPTOR", None), "name", "") != name:
        raise TypeError(
            f'Argument `{argument}` must be a tf.{name}, but got "{type(value).__name__}"'
        )
    return kind.FromString(value.SerializeToString())


def copy_into(message: Any, target: Any) -> None:
    """Fill `target` (the same message of tfjit or TensorFlow) with `message`."""
    if getattr(getattr(target, "DESCRIPTOR", None), "name", "") != message.DESCRIPTOR.name:
        raise TypeError(f"run_metadata must be a {message.DESCRIPTOR.name}, but got {type(target)}")
    target.ParseFromString(message.SerializeToString())
