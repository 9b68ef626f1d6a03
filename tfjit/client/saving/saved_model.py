"""`tfjit.saved_model`: models in folders, as TensorFlow 1 keeps them.

A folder holds a model with its variables, assets and signatures.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

from tfjit.client.saving.meta_graph import export_meta_graph, import_scoped_meta_graph
from tfjit.client.saving.saver import Saver
from tfjit.client.variables.variable_collections import global_variables, tables_initializer
from tfjit.framework.graphs.default_graph import get_default_graph
from tfjit.framework.graphs.graph_keys import GraphKeys
from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.types.dtypes import as_dtype

if TYPE_CHECKING:
    from tfjit.framework.graphs.graph import Graph
    from tfjit.framework.graphs.typing import Message, SessionLike

_SCHEMA_VERSION: Final = 1
_MAIN_OP: Final = "saved_model_main_op"
_LEGACY_INIT_OP: Final = "legacy_init_op"
_INIT_SIGNATURE: Final = "__saved_model_init_op"
_TRAIN_SIGNATURE: Final = "__saved_model_train_op"

tag_constants: Final = SimpleNamespace(
    SERVING="serve", TRAINING="train", EVAL="eval", GPU="gpu", TPU="tpu"
)
signature_constants: Final = SimpleNamespace(
    DEFAULT_SERVING_SIGNATURE_DEF_KEY="serving_default",
    CLASSIFY_INPUTS="inputs",
    CLASSIFY_METHOD_NAME="tensorflow/serving/classify",
    CLASSIFY_OUTPUT_CLASSES="classes",
    CLASSIFY_OUTPUT_SCORES="scores",
    PREDICT_INPUTS="inputs",
    PREDICT_METHOD_NAME="tensorflow/serving/predict",
    PREDICT_OUTPUTS="outputs",
    REGRESS_INPUTS="inputs",
    REGRESS_METHOD_NAME="tensorflow/serving/regress",
    REGRESS_OUTPUTS="outputs",
)
constants: Final = SimpleNamespace(
    ASSETS_DIRECTORY="assets",
    ASSETS_KEY="saved_model_assets",
    DEBUG_DIRECTORY="debug",
    DEBUG_INFO_FILENAME_PB="saved_model_debug_info.pb",
    LEGACY_INIT_OP_KEY=_LEGACY_INIT_OP,
    MAIN_OP_KEY=_MAIN_OP,
    SAVED_MODEL_FILENAME_PB="saved_model.pb",
    SAVED_MODEL_FILENAME_PBTXT="saved_model.pbtxt",
    SAVED_MODEL_SCHEMA_VERSION=_SCHEMA_VERSION,
    VARIABLES_DIRECTORY="variables",
    VARIABLES_FILENAME="variables",
)


# signatures


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


# writing


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
        self._model = SavedModel(saved_model_schema_version=_SCHEMA_VERSION)
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
            graph.get_collection_ref(_MAIN_OP)[:] = [main_op]
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
    if key in (_INIT_SIGNATURE, _TRAIN_SIGNATURE):
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


# reading


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
    if _INIT_SIGNATURE in meta.signature_def:
        found: str = meta.signature_def[_INIT_SIGNATURE].outputs[_INIT_SIGNATURE].name
        return found
    for key in (_MAIN_OP, _LEGACY_INIT_OP):
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


def main_op() -> Operation:
    """Return an operation for `main_op` of a builder.

    It fills the lookup tables of the default graph.
    """
    return tables_initializer()


builder: Final = SimpleNamespace(SavedModelBuilder=Builder)
loader: Final = SimpleNamespace(load=load, maybe_saved_model_directory=maybe_saved_model_directory)
signature_def_utils: Final = SimpleNamespace(
    build_signature_def=build_signature_def,
    classification_signature_def=classification_signature_def,
    predict_signature_def=predict_signature_def,
    regression_signature_def=regression_signature_def,
)
utils: Final = SimpleNamespace(
    build_tensor_info=build_tensor_info, get_tensor_from_tensor_info=get_tensor_from_tensor_info
)
