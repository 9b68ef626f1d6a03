"""Write SavedModels.

Such a folder holds a graph with its variables, assets and signatures.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfjit.client.saving.meta_graph import export_meta_graph
from tfjit.client.saving.saved_model_constants import (
    INIT_SIGNATURE,
    MAIN_OP,
    SCHEMA_VERSION,
    TRAIN_SIGNATURE,
    constants,
    signature_constants,
    tag_constants,
)
from tfjit.client.saving.saver import Saver
from tfjit.client.saving.signature_defs import predict_signature_def
from tfjit.client.variables.variable_collections import global_variables
from tfjit.framework.graphs.default_graph import get_default_graph
from tfjit.framework.graphs.graph_keys import GraphKeys
from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.types.dtypes import as_dtype

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Message, SessionLike


class Builder:
    """Writes a SavedModel into an empty or new folder.

    Raises AssertionError when the folder holds anything.
    """

    def __init__(self, export_dir: str | os.PathLike[str]) -> None:
        from tfjit.protos import SavedModel

        self._folder = os.fspath(export_dir)
        if os.path.isdir(self._folder) and os.listdir(self._folder):
            raise AssertionError(
                f"Export directory {self._folder} already exists, and isn't empty. Please choose a "
                "different export directory, or "
                f"delete all the contents of the specified directory: {os.listdir(self._folder)}"
            )
        os.makedirs(self._folder, exist_ok=True)
        self._model = SavedModel(saved_model_schema_version=SCHEMA_VERSION)
        self._has_saved_variables = False

    def add_meta_graph_and_variables(
        self,
        sess: SessionLike,
        tags: Sequence[str],
        signature_def_map: Mapping[str, Any] | None = None,
        assets_collection: Sequence[Any] | None = None,
        legacy_init_op: Any = None,
        clear_devices: bool = False,
        main_op: Any = None,
        strip_default_attrs: bool = False,
        saver: Saver | None = None,
    ) -> None:
        """Add the session's graph and the values of its variables.

        The model's meta graphs share these values. tags: the purposes of the meta graph.
        signature_def_map: SignatureDefs by name. assets_collection: string tensors with file names:
        the files are copied into the model, and their new names fed when it is loaded. main_op: the
        operation that runs at the end of loading (legacy_init_op: the same, by its old name).
        saver: for variables other than the global ones. Raises AssertionError after the first call:
        use `add_meta_graph`.
        """
        if self._has_saved_variables:
            raise AssertionError(
                "Graph state including variables and assets has already been saved. Please invoke "
                "`add_meta_graph()` instead."
            )
        with sess.graph.as_default():
            saver = self._saver(saver)
            if not saver._is_empty:
                folder = os.path.join(self._folder, constants.VARIABLES_DIRECTORY)
                os.makedirs(folder, exist_ok=True)
                saver.save(
                    sess,
                    os.path.join(folder, constants.VARIABLES_FILENAME),
                    write_meta_graph=False,
                    write_state=False,
                )
            self._add(
                tags,
                signature_def_map,
                assets_collection,
                main_op or legacy_init_op,
                clear_devices,
                strip_default_attrs,
                saver,
            )
        self._has_saved_variables = True

    def add_meta_graph(
        self,
        tags: Sequence[str],
        signature_def_map: Mapping[str, Any] | None = None,
        assets_collection: Sequence[Any] | None = None,
        legacy_init_op: Any = None,
        clear_devices: bool = False,
        main_op: Any = None,
        strip_default_attrs: bool = False,
        saver: Saver | None = None,
    ) -> None:
        """Add the default graph under other tags, with the variables saved before.

        Raises AssertionError when none were.
        """
        if not self._has_saved_variables:
            raise AssertionError(
                "Graph state including variables and assets has not been saved yet. Please invoke "
                "`add_meta_graph_and_variables()` first."
            )
        saver = self._saver(saver)
        self._add(
            tags,
            signature_def_map,
            assets_collection,
            main_op or legacy_init_op,
            clear_devices,
            strip_default_attrs,
            saver,
        )

    def _saver(self, saver: Saver | None) -> Saver:
        return (
            saver
            if saver is not None
            else Saver(global_variables(), sharded=False, allow_empty=True)
        )

    def _add(
        self,
        tags: Sequence[str],
        signatures: Any,
        assets: Any,
        main_op: Any,
        clear_devices: bool,
        strip_defaults: bool,
        saver: Saver,
    ) -> None:
        from tfjit.protos import MetaGraphDef

        graph = get_default_graph()
        if main_op is not None:
            if not isinstance(main_op, Operation):
                raise TypeError(f"main_op needs to be an Operation: {main_op!r}")
            graph.get_collection_ref(MAIN_OP)[:] = [main_op]
        meta = export_meta_graph(
            meta_info_def=MetaGraphDef.MetaInfoDef(tags=list(tags)),
            graph=graph,
            saver_def=saver.as_saver_def(),
            clear_devices=clear_devices,
            strip_default_attrs=strip_defaults,
        )
        for key, signature in (signatures or {}).items():
            _check_signature(signature, key)
            meta.signature_def[key].ParseFromString(signature.SerializeToString())
        self._copy_assets(meta, assets or ())
        self._model.meta_graphs.add().CopyFrom(meta)

    def _copy_assets(self, meta: Message, assets: Sequence[Any]) -> None:
        folder = os.path.join(self._folder, constants.ASSETS_DIRECTORY)
        sources: dict[str, str] = {}
        for tensor in assets:
            source = _constant_text(tensor)
            name = os.path.basename(source)
            while sources.get(name, source) != source:  # another file of that name
                name = f"{name}_1"
            sources[name] = source
            asset = meta.asset_file_def.add(filename=name)
            asset.tensor_info.name = tensor.name
        for name, source in sources.items():
            os.makedirs(folder, exist_ok=True)
            target = os.path.join(folder, name)
            if not os.path.exists(target):
                shutil.copyfile(source, target)

    def save(self, as_text: bool = False) -> bytes:
        """Write the model's message, and return its path."""
        from google.protobuf import text_format

        name = (
            constants.SAVED_MODEL_FILENAME_PBTXT if as_text else constants.SAVED_MODEL_FILENAME_PB
        )
        path = os.path.join(self._folder, name)
        Path(path).write_bytes(
            text_format.MessageToString(self._model).encode()
            if as_text
            else self._model.SerializeToString()
        )
        return path.encode()


SavedModelBuilder = Builder


def _check_signature(signature: Any, key: str) -> None:
    """Check that every tensor of a signature has name and type.

    Raises AssertionError otherwise, as TensorFlow's builder does.
    """
    if key in (INIT_SIGNATURE, TRAIN_SIGNATURE):
        raise KeyError(
            f'SignatureDef map key "{key}" is reserved for initialization. Please use a different '
            "key."
        )
    for info in (*signature.inputs.values(), *signature.outputs.values()):
        if info.WhichOneof("encoding") is None:
            raise AssertionError(
                "All TensorInfo protos used in the SignatureDefs must have one of the 'encoding' "
                f"fields set: {info}"
            )
        if not info.dtype:
            raise AssertionError(
                "All TensorInfo protos used in the SignatureDefs must have the dtype field set: "
                f"{info}"
            )


def _constant_text(tensor: Any) -> str:
    if (
        not isinstance(tensor, Tensor)
        or tensor.op.type != "Const"
        or as_dtype(tensor.dtype).base_dtype.name != "string"
    ):
        raise ValueError(f"an asset is a constant string with the name of a file, got {tensor!r}")
    value = tensor.op.get_attr("value")
    from tfjit.framework.types.tensors import make_ndarray

    array = make_ndarray(value) if hasattr(value, "DESCRIPTOR") else value
    found: bytes = array.item()
    return found.decode()


def simple_save(
    session: SessionLike,
    export_dir: str,
    inputs: Mapping[str, Any],
    outputs: Mapping[str, Any],
    legacy_init_op: Any = None,
) -> None:
    """Write a session's graph for serving.

    The signature "serving_default" leads from inputs to outputs.
    """
    builder = Builder(export_dir)
    builder.add_meta_graph_and_variables(
        session,
        tags=[tag_constants.SERVING],
        signature_def_map={
            signature_constants.DEFAULT_SERVING_SIGNATURE_DEF_KEY: predict_signature_def(
                inputs, outputs
            )
        },
        assets_collection=session.graph.get_collection(GraphKeys.ASSET_FILEPATHS),
        main_op=legacy_init_op,
        clear_devices=True,
    )
    builder.save()
