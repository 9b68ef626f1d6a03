"""Saver: nodes that write variables to checkpoints and read them back.

It also keeps the books of the files.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tfjit import ops
from tfjit.client.saving import checkpoints
from tfjit.client.variables.partitioned_variable import PartitionedVariable
from tfjit.client.variables.resource_variables import ResourceVariable
from tfjit.client.variables.slice_info import SaveSliceInfo
from tfjit.client.variables.variable_collections import global_variables
from tfjit.client.variables.variables import Variable
from tfjit.framework import errors
from tfjit.framework.graphs.default_graph import get_default_graph, name_scope
from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.ops.core.apply import create, tensor
from tfjit.protos import SaverDef

if TYPE_CHECKING:
    from tfjit.framework.graphs.graph import Graph
    from tfjit.framework.graphs.typing import Message, SessionLike, Structure, TensorLike

_FOREVER_HOURS: Final = 10000.0
_LOGGER: Final = logging.getLogger("tensorflow")


class Saver:
    """Saves variables of a graph, and restores them.

    var_list: the variables (default: the global ones), or a dictionary from the names they shall
    have in the checkpoint. reshape: restore values of other shapes with as many elements. sharded:
    a data file a device. max_to_keep: older checkpoints are deleted (0: none is).
    keep_checkpoint_every_n_hours: of the deleted ones, one in each such period stays. saver_def: a
    SaverDef to use nodes that the graph has already. defer_build: make the nodes at `build` or the
    first use. allow_empty: without variables it saves and restores nothing. pad_step_number: steps
    in names have 8 digits. write_version: SaverDef.V1 for the older format of one file a device;
    checkpoints of both are restored. save_relative_paths: the list of checkpoints can be moved with
    its folder. Raises ValueError without variables, TypeError for values that are none.
    """

    def __init__(
        self,
        var_list: object = None,
        reshape: bool = False,
        sharded: bool = False,
        max_to_keep: int | None = 5,
        keep_checkpoint_every_n_hours: float = _FOREVER_HOURS,
        name: str | None = None,
        restore_sequentially: bool = False,
        saver_def: object = None,
        builder: object = None,
        defer_build: bool = False,
        allow_empty: bool = False,
        write_version: int = SaverDef.V2,
        pad_step_number: bool = False,
        save_relative_paths: bool = False,
        filename: str | None = None,
    ) -> None:
        if defer_build and var_list:
            raise ValueError(
                "If `var_list` is provided then build cannot be deferred. Either set "
                "defer_build=False or var_list=None."
            )
        if write_version not in (SaverDef.V1, SaverDef.V2):
            raise TypeError(
                f"write_version must be SaverDef.V1 or SaverDef.V2, but it is {write_version!r}"
            )
        if builder is not None:
            raise ValueError("a builder of one's own is not supported; leave it out")
        self._var_list = var_list
        self._reshape, self._sharded, self._sequentially = reshape, sharded, restore_sequentially
        self._max_to_keep, self._keep_hours = max_to_keep or 0, keep_checkpoint_every_n_hours
        self._name, self._filename = name, filename
        self._allow_empty = allow_empty
        self._pad, self._relative = pad_step_number, save_relative_paths
        self._version = write_version
        self._is_empty = False
        self._last: list[tuple[str, float]] = []
        self._next_kept = time.time() + self._keep_hours * 3600
        self.saver_def: Any = None
        if saver_def is not None:
            self._use(saver_def)
        elif not defer_build:
            self.build()

    # nodes

    def build(self) -> None:
        """Make the nodes, once."""
        if self.saver_def is not None or self._is_empty:
            return
        saved = _saved_tensors(global_variables() if self._var_list is None else self._var_list)
        if not saved:
            if not self._allow_empty:
                raise ValueError("No variables to save")
            self._is_empty = True
            return
        with name_scope(self._name, "save"), get_default_graph().control_dependencies(None):
            path = tensor(
                "PlaceholderWithDefault", "filename", input=self._filename or "model", shape=()
            )
            path = tensor("PlaceholderWithDefault", "Const", input=path, shape=())
            save = self._save_nodes(path, saved)
            restore = self._restore_nodes(path, saved)
        self._use(
            SaverDef(
                filename_tensor_name=path.name,
                save_tensor_name=save.name,
                restore_op_name=restore.name,
                max_to_keep=self._max_to_keep,
                sharded=self._sharded,
                keep_checkpoint_every_n_hours=self._keep_hours,
                version=SaverDef.V1 if self._version == SaverDef.V1 else SaverDef.V2,
            )
        )

    def _use(self, saver_def: Message) -> None:
        self.saver_def = saver_def
        self._max_to_keep, self._keep_hours = (
            saver_def.max_to_keep,
            saver_def.keep_checkpoint_every_n_hours,
        )
        self._version = int(saver_def.version)
        self._next_kept = time.time() + self._keep_hours * 3600

    def _save_nodes(self, path: Tensor, saved: Sequence[_SavedTensor]) -> Tensor:
        graph = get_default_graph()
        if not self._sharded:
            return self._saved(path, saved)
        by_device: dict[str, list[_SavedTensor]] = {}
        for item in saved:
            by_device.setdefault(item.variable.device, []).append(item)
        whole = self._version == SaverDef.V1
        base = path if whole else tensor("StringJoin", "StringJoin", inputs=[path, "_temp_part"])
        count = ops.constant(len(by_device), name="num_shards")
        parts, written_all = [], []
        for k, (device, own) in enumerate(sorted(by_device.items())):
            with graph.device(device or None):
                parts.append(
                    tensor(
                        "ShardedFilename",
                        "ShardedFilename",
                        basename=base,
                        shard=k,
                        num_shards=count,
                    )
                )
                written_all.append(self._saved(parts[-1], own).op)
        with graph.control_dependencies(written_all):
            if whole:
                return tensor("ShardedFilespec", basename=path, num_shards=count)
            prefixes = ops.stack(parts, name="MergeV2Checkpoints/checkpoint_prefixes")
            merged = create(
                "MergeV2Checkpoints",
                checkpoint_prefixes=prefixes,
                destination_prefix=path,
                delete_old_dirs=False,
            )
        with graph.control_dependencies([merged]):
            return ops.identity(path, name="control_dependency")

    def _saved(self, path: Tensor, saved: Sequence[_SavedTensor]) -> Tensor:
        """Return the path, behind the operation that writes the tensors."""
        with get_default_graph().control_dependencies([self._write(path, saved)]):
            return ops.identity(path, name="control_dependency")

    def _write(self, path: Tensor, saved: Sequence[_SavedTensor]) -> Operation:
        """Return the operation that writes the tensors in the version's format."""
        values: list[object] = []
        for item in saved:
            variable = item.variable
            with get_default_graph().device(variable.device or None):
                values.append(
                    variable.read_value()
                    if isinstance(variable, ResourceVariable)
                    else variable.op.outputs[0]
                )
        names, slices = [item.name for item in saved], [item.slice_spec for item in saved]
        if self._version == SaverDef.V1:
            return create(
                "SaveSlices",
                "save",
                filename=path,
                tensor_names=names,
                shapes_and_slices=slices,
                data=values,
            )
        with get_default_graph().device("/device:CPU:0"):
            return create(
                "SaveV2",
                "SaveV2",
                prefix=path,
                tensor_names=names,
                shape_and_slices=slices,
                tensors=values,
            )

    def _restore_nodes(self, path: Tensor, saved: Sequence[_SavedTensor]) -> Operation:
        graph = get_default_graph()
        with graph.device("/device:CPU:0"):
            read = create(
                "RestoreV2",
                "RestoreV2",
                prefix=path,
                tensor_names=[item.name for item in saved],
                shape_and_slices=[item.slice_spec for item in saved],
                dtypes=[item.variable.dtype.base_dtype for item in saved],
            )
        assigned: list[Operation] = []
        for value, item in zip(read.outputs, saved, strict=True):
            before = assigned[-1:] if self._sequentially else []
            with graph.control_dependencies(before), graph.colocate_with(item.variable.op):
                assigned.append(self._assign(item.variable, value))
        return ops.group(*assigned, name="restore_all")

    def _assign(self, variable: Variable, value: Tensor) -> Operation:
        if self._reshape:
            value = ops.reshape(value, variable.shape)
        return assigned_from_checkpoint(variable, value, check_shape=not self._reshape)

    # files

    def save(
        self,
        sess: SessionLike,
        save_path: str | os.PathLike[str],
        global_step: TensorLike | None = None,
        latest_filename: str | None = None,
        meta_graph_suffix: str = "meta",
        write_meta_graph: bool = True,
        write_state: bool = True,
        strip_default_attrs: bool = False,
        save_debug_info: bool = False,
    ) -> str | None:
        """Write a checkpoint and return its prefix.

        The prefix is save_path, with "-" and the global step where one is given. global_step: a
        number, or a tensor or variable that `sess` evaluates. latest_filename: of the list of
        checkpoints ("checkpoint"). write_meta_graph: also write the MetaGraphDef, which
        `import_meta_graph` reads. write_state: list it. Raises ValueError for a bad path; errors of
        the file system as OpError.
        """
        if latest_filename is not None and os.path.split(latest_filename)[0]:
            raise ValueError("'latest_filename' must not contain path components")
        self.build()
        path = os.fspath(save_path)
        if global_step is not None:
            step = int(
                global_step if isinstance(global_step, int) else sess.run(_step_tensor(global_step))
            )
            path = f"{path}-{step:08d}" if self._pad else f"{path}-{step}"
        elif (
            os.path.basename(path) == (latest_filename or checkpoints.DEFAULT_NAME)
            and not self._sharded
        ):
            raise ValueError(
                "'latest_filename' collides with 'save_path': "
                f"'{latest_filename or checkpoints.DEFAULT_NAME}' and '{path}'"
            )
        if self._is_empty:
            return None
        folder = os.path.dirname(path)
        if folder and not os.path.isdir(folder):
            raise ValueError(f"Parent directory of {path} doesn't exist, can't save.")
        if self._version != SaverDef.V2:
            _LOGGER.warning(
                "Checkpoints of version 1 are deprecated: leave out write_version, and the Saver "
                "writes version 2, which needs less memory"
            )
        written = sess.run(
            self.saver_def.save_tensor_name, {self.saver_def.filename_tensor_name: path}
        )
        prefix: str = written.decode() if isinstance(written, bytes) else str(written)
        if write_state:
            dropped = self._remember(prefix)
            checkpoints.write_state(
                folder,
                prefix,
                self.last_checkpoints,
                latest_filename,
                [saved for _, saved in self._last],
                self._next_kept - self._keep_hours * 3600,
                self._relative,
            )
            for old in dropped:
                checkpoints.remove_checkpoint(old, self._version, meta_graph_suffix)
        if write_meta_graph:
            self.export_meta_graph(
                checkpoints.meta_graph_path(prefix, meta_graph_suffix),
                strip_default_attrs=strip_default_attrs,
                graph=sess.graph,
            )
        return prefix

    def _remember(self, prefix: str) -> list[str]:
        """Add a checkpoint to those kept; which go in its place."""
        self._last = [(path, saved) for path, saved in self._last if path != prefix]
        self._last.append((prefix, time.time()))
        dropped = []
        while 0 < self._max_to_keep < len(self._last):
            path, saved = self._last.pop(0)
            if saved > self._next_kept:  # the checkpoint stays on disk, but leaves the list
                self._next_kept += self._keep_hours * 3600
            else:
                dropped.append(path)
        return dropped

    def restore(self, sess: SessionLike, save_path: str | os.PathLike[str]) -> None:
        """Give the variables the values in a checkpoint.

        They need no initialisation then. Raises ValueError when there is no such checkpoint,
        NotFoundError when a variable is not in it, InvalidArgumentError when one has another shape
        or dtype there.
        """
        self.build()
        if self._is_empty:
            return
        if save_path is None:
            raise ValueError("Can't load save_path when it is None.")
        path = os.fspath(save_path)
        if not checkpoints.checkpoint_exists(path):
            raise ValueError(f"The passed save_path is not a valid checkpoint: {path}")
        _LOGGER.info("Restoring parameters from %s", path)
        try:
            sess.run(self.saver_def.restore_op_name, {self.saver_def.filename_tensor_name: path})
        except errors.NotFoundError as error:
            what = (
                "This is most likely due to a Variable name or other graph key that is missing "
                "from the checkpoint"
            )
            raise _explained(error, what) from None
        except errors.InvalidArgumentError as error:
            what = (
                "This is most likely due to a mismatch between the current graph and the graph "
                "from the checkpoint"
            )
            raise _explained(error, what) from None

    @property
    def last_checkpoints(self) -> list[str]:
        """Prefixes of the checkpoints that are kept, the newest last."""
        return [path for path, _ in self._last]

    def set_last_checkpoints(self, last_checkpoints: Sequence[str]) -> None:
        """Say which checkpoints are kept, without knowing their age."""
        self._last = [(path, float("inf")) for path in last_checkpoints]

    def set_last_checkpoints_with_time(
        self, last_checkpoints_with_time: Sequence[tuple[str, float]]
    ) -> None:
        """Say which checkpoints are kept, and when each was written."""
        self._last = list(last_checkpoints_with_time)

    def recover_last_checkpoints(self, checkpoint_paths: Sequence[str]) -> None:
        """Adopt the checkpoints of an earlier process that still exist."""
        there = [path for path in checkpoint_paths if checkpoints.checkpoint_exists(path)]
        self._last = [(path, checkpoints.time_of(path)) for path in there]

    # messages

    def as_saver_def(self) -> Message:
        """Return the names of the nodes as a SaverDef."""
        return self.saver_def

    def to_proto(self, export_scope: str | None = None) -> Message:
        """Return the SaverDef, with names as seen from `export_scope`.

        None when it has no nodes there.
        """
        if self.saver_def is None:
            return None
        if export_scope is None:
            return self.saver_def
        prefix = f"{export_scope}/"
        made = type(self.saver_def)()
        made.CopyFrom(self.saver_def)
        for field in ("filename_tensor_name", "save_tensor_name", "restore_op_name"):
            name = getattr(made, field)
            if not name.startswith(prefix):
                return None
            setattr(made, field, name[len(prefix) :])
        return made

    @staticmethod
    def from_proto(saver_def: Message, import_scope: str | None = None) -> Saver:
        """Return a Saver over nodes of the graph.

        Accepts SaverDefs of tfjit and TensorFlow.
        """
        made = SaverDef.FromString(saver_def.SerializeToString())
        if import_scope:
            for field in ("filename_tensor_name", "save_tensor_name", "restore_op_name"):
                setattr(made, field, f"{import_scope}/{getattr(made, field)}")
        return Saver(saver_def=made, name=import_scope)

    def export_meta_graph(
        self,
        filename: str | None = None,
        collection_list: Sequence[str] | None = None,
        as_text: bool = False,
        export_scope: str | None = None,
        clear_devices: bool = False,
        clear_extraneous_savers: bool = False,
        strip_default_attrs: bool = False,
        save_debug_info: bool = False,
        graph: Graph | None = None,
    ) -> Message:
        """Return the MetaGraphDef of the graph with this Saver.

        It is also written to `filename` where one is given.
        """
        from tfjit.client.saving.meta_graph import export_meta_graph

        graph = graph if graph is not None else get_default_graph()
        return export_meta_graph(
            filename,
            graph=graph,
            saver_def=self.saver_def,
            collection_list=collection_list,
            as_text=as_text,
            export_scope=export_scope,
            clear_devices=clear_devices,
            clear_extraneous_savers=clear_extraneous_savers,
            strip_default_attrs=strip_default_attrs,
        )


def _explained(error: errors.OpError, what: str) -> errors.OpError:
    return error.restated(
        f"Restoring from checkpoint failed. {what}. Please ensure that you have not altered the "
        "graph expected based on the checkpoint. "
        f"Original error:\n\n{error.message}",
        error.op,
        error.node_def,
    )


def _step_tensor(global_step: TensorLike) -> Any:
    return (
        global_step
        if isinstance(global_step, Tensor) or not isinstance(global_step, Variable)
        else global_step.value()
    )


def assigned_from_checkpoint(
    variable: Variable, value: Tensor, check_shape: bool = True
) -> Operation:
    """Return an operation that gives a variable the value that RestoreV2 read."""
    if isinstance(variable, ResourceVariable):
        value = ops.identity(value)
        value.set_shape(variable.shape)
        return create("AssignVariableOp", resource=variable.handle, value=value)
    checked = check_shape and variable.shape.is_fully_defined()
    with get_default_graph().colocate_with(variable.op):
        return create("Assign", ref=variable.op.outputs[0], value=value, validate_shape=checked)


class _SavedTensor(NamedTuple):
    """A tensor of a checkpoint or a slice, and its variable."""

    name: str
    slice_spec: str  # empty for a whole tensor
    variable: Variable


def _saved_tensors(var_list: Structure) -> list[_SavedTensor]:
    """Return the tensors to save, by name, slices in their order.

    Raises ValueError for a name that comes twice and slices that do not belong together, TypeError
    for a value that is no variable.
    """
    found: list[_SavedTensor] = []
    for name, variable in sorted(named_variables(var_list).items()):
        if isinstance(variable, Variable):
            found.append(_SavedTensor(name, "", variable))
        else:
            found += [_SavedTensor(name, info.spec, part) for part, info in slice_places(variable)]
    return found


def named_variables(var_list: Structure) -> dict[str, Structure]:
    """Return name in the checkpoint -> variable, PartitionedVariable or list of slices."""
    if isinstance(var_list, Mapping):
        for variable in var_list.values():
            _check_variable(variable)
        return dict(var_list)
    named: dict[str, Structure] = {}
    for variable in var_list:
        _check_variable(variable)
    for variable in sorted(var_list, key=lambda variable: variable.name):
        info = None if isinstance(variable, PartitionedVariable) else variable._save_slice_info
        if info is not None:
            parts = named.setdefault(info.full_name, [])
            if not isinstance(parts, list):
                raise ValueError(
                    f"Mixing slices and non-slices with the same name: {info.full_name}"
                )
            parts.append(variable)
            continue
        is_variable = isinstance(variable, Variable)
        name = variable._shared_name if is_variable else variable.name
        if named.setdefault(name, variable) is not variable:
            raise ValueError(f"At least two variables have the same name: {name}")
    return named


def _check_variable(value: object) -> None:
    parts = value if isinstance(value, (list, tuple)) else [value]
    if not all(isinstance(part, (Variable, PartitionedVariable)) for part in parts):
        raise TypeError(f"Variable to save is not a Variable: {value}")


def slice_places(parts: Iterable[Variable]) -> list[tuple[Variable, SaveSliceInfo]]:
    """Return the slices of one tensor with their places.

    Raises ValueError for variables that are not slices, or slices of several tensors.
    """
    found: list[tuple[Variable, SaveSliceInfo]] = []
    for part in parts:
        info = part._save_slice_info
        if info is None:
            raise ValueError(f"Slices must all be slices: {part}")
        if found and found[0][1].full_name != info.full_name:
            raise ValueError(
                f"Slices must all be from the same tensor: {found[0][1].full_name} != "
                f"{info.full_name}"
            )
        found.append((part, info))
    return found


def import_meta_graph(
    meta_graph_or_file: Any,
    clear_devices: bool = False,
    import_scope: str | None = None,
    **kwargs: Any,
) -> Saver | None:
    """Add the graph in a MetaGraphDef, with its collections.

    meta_graph_or_file: message of tfjit or TensorFlow, bytes, or file. The graph is added to the
    default graph. Returns its Saver; one of the variables when it names none, None without
    variables. kwargs: input_map and return_elements as of `import_graph_def`. Raises NotFoundError
    without such a file, InvalidArgumentError for a source that is no MetaGraphDef.
    """
    from tfjit.client.saving.meta_graph import import_scoped_meta_graph

    variables, meta_graph = import_scoped_meta_graph(
        meta_graph_or_file, clear_devices, import_scope=import_scope, **kwargs
    )
    if meta_graph.HasField("saver_def"):
        return Saver.from_proto(meta_graph.saver_def, import_scope)
    return Saver(list(variables.values())) if variables else None
