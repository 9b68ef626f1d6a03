"""Load SavedModels into sessions."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfjit.client.saving.meta_graph import import_scoped_meta_graph
from tfjit.client.saving.saved_model_constants import (
    INIT_SIGNATURE,
    LEGACY_INIT_OP,
    MAIN_OP,
    constants,
)
from tfjit.client.saving.saver import Saver

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Message, SessionLike


def maybe_saved_model_directory(export_dir: str | os.PathLike[str]) -> bool:
    """Return whether a folder holds a SavedModel."""
    folder = os.fspath(export_dir)
    names = (constants.SAVED_MODEL_FILENAME_PB, constants.SAVED_MODEL_FILENAME_PBTXT)
    return any(os.path.isfile(os.path.join(folder, name)) for name in names)


contains_saved_model = maybe_saved_model_directory


def load(
    sess: SessionLike,
    tags: Sequence[str],
    export_dir: str | os.PathLike[str],
    import_scope: str | None = None,
    **saver_kwargs: Any,
) -> Any:
    """Load the meta graph with exactly these tags into a session.

    The graph is added to the session's graph, its variables are restored, and its initialisation
    runs. Returns the MetaGraphDef, with its signatures. import_scope: put before all names. Reads
    models of TensorFlow 1 and 2. Raises OSError when the folder holds no SavedModel, RuntimeError
    when none of its meta graphs has these tags.
    """
    folder = os.fspath(export_dir)
    meta = _choose(_read(folder), set(tags))
    graph = sess.graph
    with graph.as_default():
        variables, _ = import_scoped_meta_graph(meta, graph=graph, import_scope=import_scope)
        _restore(sess, meta, folder, variables, import_scope, saver_kwargs)
        _initialize(sess, meta, folder, import_scope)
    return meta


def _read(folder: str) -> Message:
    from google.protobuf import text_format
    from google.protobuf.message import DecodeError

    from tfjit.protos import SavedModel

    for name in (constants.SAVED_MODEL_FILENAME_PB, constants.SAVED_MODEL_FILENAME_PBTXT):
        path = Path(folder) / name
        if path.is_file():
            try:
                if path.suffix == ".pb":
                    return SavedModel.FromString(path.read_bytes())
                return text_format.Parse(path.read_text(), SavedModel())
            except (DecodeError, text_format.ParseError, UnicodeDecodeError) as error:
                raise OSError(f"Cannot parse file {path}: {error}.") from None
    raise OSError(
        f"SavedModel file does not exist at: {folder}{os.sep}{{saved_model.pbtxt|saved_model.pb}}"
    )


def _choose(model: Message, tags: set[str]) -> Message:
    for meta in model.meta_graphs:
        if set(meta.meta_info_def.tags) == tags:
            return meta
    available = [set(meta.meta_info_def.tags) for meta in model.meta_graphs]
    raise RuntimeError(
        f"MetaGraphDef associated with tags {str(sorted(tags)).strip('[]')} could not be found in "
        "SavedModel, "
        f"with available tags '{available}'. To inspect available tag-sets in the SavedModel, "
        "please use `tfjit inspect`."
    )


def _restore(
    sess: SessionLike,
    meta: Message,
    folder: str,
    variables: Mapping[str, Any],
    scope: str | None,
    saver_kwargs: Mapping[str, Any],
) -> None:
    prefix = os.path.join(folder, constants.VARIABLES_DIRECTORY, constants.VARIABLES_FILENAME)
    if not os.path.isfile(f"{prefix}.index"):
        return
    if meta.HasField("saver_def"):
        Saver.from_proto(meta.saver_def, scope).restore(sess, prefix)
    elif variables:
        Saver(variables, **saver_kwargs).restore(sess, prefix)


def _initialize(sess: SessionLike, meta: Message, folder: str, scope: str | None) -> None:
    """Run the model's initialisation after its variables are there.

    The names of its assets are fed.
    """
    graph = sess.graph

    def scoped(name: str) -> str:
        return f"{scope}/{name}" if scope else name

    feeds = {
        scoped(tensor): os.path.join(folder, constants.ASSETS_DIRECTORY, filename)
        for tensor, filename in asset_files(meta).items()
    }
    name = initializer_of(meta)
    if name:
        operation = graph.as_graph_element(scoped(name))
        sess.run(getattr(operation, "op", operation), feeds)


def initializer_of(meta: Message) -> str:
    """Return the name of a meta graph's initialisation, or "".

    It is that of an operation or of its output. Raises RuntimeError when it names several.
    """
    if INIT_SIGNATURE in meta.signature_def:
        found: str = meta.signature_def[INIT_SIGNATURE].outputs[INIT_SIGNATURE].name
        return found
    for key in (MAIN_OP, LEGACY_INIT_OP):
        if key in meta.collection_def:
            names = list(meta.collection_def[key].node_list.value)
            if len(names) != 1:
                raise RuntimeError(f"Expected exactly one SavedModel init op. Found: {names}")
            only: str = names[0]
            return only
    return ""


def asset_files(meta: Message) -> dict[str, str]:
    """Return the file names of assets by tensor."""
    return {asset.tensor_info.name: asset.filename for asset in _assets(meta)}


def _assets(meta: Message) -> Iterator[Any]:
    from tfjit.protos import AssetFileDef

    if meta.asset_file_def:
        yield from meta.asset_file_def
        return
    for packed in (
        meta.collection_def[constants.ASSETS_KEY].any_list.value
        if constants.ASSETS_KEY in meta.collection_def
        else ()
    ):
        # packed under TensorFlow's name of the message
        yield AssetFileDef.FromString(packed.value)
