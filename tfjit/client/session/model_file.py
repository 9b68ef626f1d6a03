"""A model's message from a file or its bytes.

A model is a GraphDef, a MetaGraphDef or a SavedModel, binary or (in a file) text, or a pack of one.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from google.protobuf.message import DecodeError, Message

from tfjit.client.session.pack_file import PackFile, pack_path
from tfjit.framework import errors
from tfjit.protos import GraphDef, MetaGraphDef, SavedModel

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A model as it stands in a file.

    kind: "GraphDef", "MetaGraphDef" or "SavedModel". message: the graph, or the chosen meta graph,
    for a Session. pack: the pack that holds the model, if one does.
    """

    path: Path
    kind: str
    size_bytes: int
    message: GraphDef | MetaGraphDef
    pack: PackFile | None = None

    @property
    def graph_def(self) -> GraphDef:
        """The graph."""
        return self.message.graph_def if isinstance(self.message, MetaGraphDef) else self.message

    @property
    def tags(self) -> list[str]:
        """The tags of the chosen meta graph of a SavedModel."""
        return (
            list(self.message.meta_info_def.tags) if isinstance(self.message, MetaGraphDef) else []
        )

    @property
    def signatures(self) -> Mapping[str, Any]:
        """SignatureDefs by name; none for a GraphDef."""
        return self.message.signature_def if isinstance(self.message, MetaGraphDef) else {}


def read_model(path: str | Path, *, faulty: bool = False) -> ModelFile:
    """Read the model in a file, a SavedModel's folder or a pack.

    Of a SavedModel's meta graphs, the one tagged "serve" is taken, else the first. faulty: as in
    `parse_model`. Raises FileNotFoundError when there is no such file, InvalidArgumentError when it
    holds no model or only part of one, DataLossError when it is a damaged pack.
    """
    path = Path(path)
    if path.is_dir():
        inside = [
            path / name
            for name in ("saved_model.pb", "saved_model.pbtxt")
            if (path / name).is_file()
        ]
        if not inside:
            raise errors.InvalidArgumentError(
                None, None, f"{path} is a folder without saved_model.pb, so it is not a SavedModel."
            )
        path = inside[0]
    if pack_path(path) is not None:
        pack = PackFile(path)
        return ModelFile(path, pack.manifest.kind, pack.size_bytes, pack.message(), pack)
    content = path.read_bytes()
    kind, message = (
        _parse_text(path, content)
        if path.suffix in (".pbtxt", ".txt")
        else parse_model(content, str(path), faulty=faulty)
    )
    if isinstance(message, SavedModel):
        message = _choose(message, path)
    graph = message.graph_def if isinstance(message, MetaGraphDef) else message
    if not graph.node:
        raise errors.InvalidArgumentError(None, None, f"{path} holds a {kind} without nodes.")
    return ModelFile(path, kind, len(content), message)


def _choose(model: SavedModel, path: Path) -> MetaGraphDef:
    if not model.meta_graphs:
        raise errors.InvalidArgumentError(
            None, None, f"{path} holds a SavedModel without meta graphs."
        )
    return next(
        (meta for meta in model.meta_graphs if "serve" in meta.meta_info_def.tags),
        model.meta_graphs[0],
    )


def _parse_text(path: Path, content: bytes) -> tuple[str, Any]:
    from google.protobuf import text_format

    reasons = []
    for message_class in (GraphDef, MetaGraphDef, SavedModel):
        try:
            return message_class.DESCRIPTOR.name, text_format.Parse(content, message_class())
        except (text_format.ParseError, UnicodeDecodeError) as error:
            reasons.append(f"{message_class.DESCRIPTOR.name}: {error}")
    raise errors.InvalidArgumentError(
        None, None, f"{path} is not the text of a model.\n  " + "\n  ".join(reasons)
    )


def parse_model(
    content: bytes, where: str = "the bytes given", *, faulty: bool = False
) -> tuple[str, Any]:
    """Return (kind, message) of the message whose form fits.

    Raises InvalidArgumentError when none does; `where` is the source in its text.

    A wire format has no magic number, and the three share field numbers: the content decides.
    faulty: a GraphDef whose nodes lack names or ops will do, since its import names the faulty node
    and its fault.
    """
    parsed: list[Message] = []
    for message_class in (GraphDef, MetaGraphDef, SavedModel):
        try:
            message = message_class.FromString(content)
        except DecodeError:
            continue
        if _fits(message):
            return message_class.DESCRIPTOR.name, message
        parsed.append(message)
    if faulty:
        for candidate in parsed:
            if isinstance(candidate, GraphDef) and any(
                node.name or node.op for node in candidate.node
            ):
                return "GraphDef", candidate
    raise errors.InvalidArgumentError(
        None,
        None,
        f"{where} ({len(content)} bytes) cannot be parsed as a GraphDef, MetaGraphDef or "
        "SavedModel: it is truncated or something else.",
    )


def _fits(message: Message) -> bool:
    """Return whether a parsed message is a model.

    Each of its nodes names an op, and a meta graph or saved model holds such a graph.
    """
    if isinstance(message, GraphDef):
        return bool(message.node) and all(node.name and node.op for node in message.node)
    if isinstance(message, MetaGraphDef):
        return message.HasField("graph_def") and _fits(message.graph_def)
    if isinstance(message, SavedModel):
        return bool(message.meta_graphs) and all(_fits(meta) for meta in message.meta_graphs)
    return False
