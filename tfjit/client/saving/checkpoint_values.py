"""`init_from_checkpoint`: initial values of variables that are read from a checkpoint."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from tfjit.client.saving.checkpoints import latest_checkpoint, load_checkpoint
from tfjit.client.saving.saver import assigned_from_checkpoint, slice_places
from tfjit.client.variables.variable_store import variable_store
from tfjit.client.variables.variables import Variable
from tfjit.framework.graphs.default_graph import device
from tfjit.ops.core.apply import create

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Structure

_LOGGER: Final = logging.getLogger("tensorflow")


def init_from_checkpoint(
    ckpt_dir_or_file: str | os.PathLike[str], assignment_map: Structure
) -> None:
    """Let initializers of variables read their values from a checkpoint.

    No value is read before the initializers run. assignment_map: a dictionary or pairs of a name in
    the checkpoint and a variable, a list of slices, or the name of a variable that `get_variable`
    made. "a/" with "b/" means all variables in the scope b; "/" is the whole checkpoint, or
    all variables. Raises ValueError for a name that the checkpoint lacks and for another shape.
    """
    path = checkpoint_path(ckpt_dir_or_file)
    shapes = load_checkpoint(ckpt_dir_or_file).get_variable_to_shape_map()
    pairs: Iterable[tuple[str, Structure]] = (
        assignment_map.items() if isinstance(assignment_map, Mapping) else assignment_map
    )
    for name, target in sorted(pairs, key=lambda pair: pair[0]):
        variable = _stored(target) if isinstance(target, str) else target
        if variable is None:
            _initialize_scope(ckpt_dir_or_file, path, shapes, name, target)
            continue
        if name not in shapes:
            raise ValueError(
                f"Tensor {name} is not found in {ckpt_dir_or_file} checkpoint {shapes}"
            )
        if isinstance(variable, Variable) and not variable.shape.is_compatible_with(shapes[name]):
            raise ValueError(
                f"Shape of variable {variable.name} ({variable.shape}) doesn't match with shape "
                f"of tensor {name} ({shapes[name]}) from checkpoint reader."
            )
        _initialize(variable, path, name)


def checkpoint_path(ckpt_dir_or_file: str | os.PathLike[str]) -> str:
    """Return the prefix of a checkpoint, or of a folder's newest one."""
    path = os.fspath(ckpt_dir_or_file)
    return (latest_checkpoint(path) or "") if os.path.isdir(path) else path


def _stored(name: str) -> Variable | list[Variable] | None:
    """Return the variable of `get_variable`, or the slices of a partitioned one."""
    known = variable_store().whole
    if name in known:
        return known[name]
    parts: list[Variable] = []
    while (part := known.get(f"{name}/part_{len(parts)}")) is not None:
        parts.append(part)
    return parts or None


def _initialize_scope(
    checkpoint: str | os.PathLike[str],
    path: str,
    shapes: Mapping[str, object],
    source: str,
    target: str,
) -> None:
    """Initialize all variables of the scope `target` from the scope `source`."""
    scope = target.rpartition("/")[0]
    if not source.endswith("/"):
        raise ValueError(
            f"Assignment map with scope only name {scope} should map to scope only {source}. "
            "Should be 'scope/': 'other_scope/'."
        )
    names = {
        name.partition("/part_")[0]
        for name in variable_store().whole
        if not scope or name.startswith(f"{scope}/")
    }
    for name in sorted(names):
        inner = name[len(scope) :]
        if target != "/":
            inner = inner[1:]
        full = (inner if source == "/" else source + inner).removesuffix("/")
        if full not in shapes:
            raise ValueError(
                f"Tensor {full} ({name[len(scope) + 1 :]} in {source}) is not found in "
                f"{checkpoint} checkpoint"
            )
        _initialize(_stored(name), path, full)


def _initialize(variable: Variable | list[Variable] | None, path: str, name: str) -> None:
    assert variable is not None
    if isinstance(variable, Variable):
        places = [(variable, "")]
    else:
        places = [(part, info.spec) for part, info in slice_places(variable)]
    for part, slice_spec in places:
        with device(part.device), device("/cpu:0"):
            (value,) = create(
                "RestoreV2",
                "checkpoint_initializer",
                prefix=path,
                tensor_names=[name],
                shape_and_slices=[slice_spec],
                dtypes=[part.dtype.base_dtype],
            ).outputs
        part._initializer_op = assigned_from_checkpoint(part, value)
        value.set_shape(part.shape)
        part._initial_value = value
        _LOGGER.debug("Initialize variable %s from checkpoint %s with %s", part.name, path, name)
