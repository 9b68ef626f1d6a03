"""Checkpoints on disk and the file "checkpoint" that lists them.

Each folder has such a file; a reader gives the contents of a checkpoint.
"""

from __future__ import annotations

import contextlib
import glob
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tfjit.framework import errors
from tfjit.framework.files.bundle import BundleReader
from tfjit.framework.files.saved_slices import SlicesReader
from tfjit.protos import CheckpointState

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Message

DEFAULT_NAME: Final = "checkpoint"
_POLL_SECONDS: Final = 1.0
_SHARDS_OF_V1: Final = re.compile(r"-[\d?]+-of-\d+$")


def checkpoint_exists(checkpoint_prefix: str) -> bool:
    """Return whether there is a checkpoint with this prefix.

    A checkpoint of version 1 is a file of that name, or files that the name matches as a pattern.
    """
    return os.path.isfile(f"{checkpoint_prefix}.index") or bool(files_of_v1(checkpoint_prefix))


def files_of_v1(checkpoint_prefix: str) -> list[str]:
    """Return the files of a checkpoint of version 1, by name.

    There are none where it is missing.
    """
    if os.path.isfile(checkpoint_prefix):
        return [checkpoint_prefix]
    return sorted(path for path in glob.glob(checkpoint_prefix) if os.path.isfile(path))


def time_of(checkpoint_prefix: str) -> float:
    """Return the time of a checkpoint in seconds since the epoch."""
    index = f"{checkpoint_prefix}.index"
    return os.path.getmtime(index if os.path.isfile(index) else files_of_v1(checkpoint_prefix)[0])


def meta_graph_path(checkpoint_prefix: str, meta_graph_suffix: str = "meta") -> str:
    """Return the name of the MetaGraphDef beside a checkpoint.

    The pattern of a sharded checkpoint of version 1 loses its shards.
    """
    return f"{_SHARDS_OF_V1.sub('', checkpoint_prefix)}.{meta_graph_suffix}"


def get_checkpoint_state(
    checkpoint_dir: str | os.PathLike[str], latest_filename: str | None = None
) -> Any:
    """Return the CheckpointState of a folder, or None.

    Its paths lead from here. None when the folder has no readable one.
    """
    from google.protobuf import text_format

    folder = os.fspath(checkpoint_dir)
    path = os.path.join(folder, latest_filename or DEFAULT_NAME)
    try:
        state = text_format.Parse(Path(path).read_text(), CheckpointState())
    except (OSError, UnicodeDecodeError, text_format.ParseError):
        return None
    if not state.model_checkpoint_path:
        raise ValueError(f"Invalid checkpoint state loaded from {folder}")
    state.model_checkpoint_path = os.path.join(folder, state.model_checkpoint_path)
    for k, kept in enumerate(state.all_model_checkpoint_paths):
        state.all_model_checkpoint_paths[k] = os.path.join(folder, kept)
    return state


def latest_checkpoint(
    checkpoint_dir: str | os.PathLike[str], latest_filename: str | None = None
) -> str | None:
    """Return the prefix of the newest checkpoint that a folder lists.

    None when it lists none, or the listed one is gone.
    """
    state = get_checkpoint_state(checkpoint_dir, latest_filename)
    if state is None or not checkpoint_exists(state.model_checkpoint_path):
        return None
    path: str = state.model_checkpoint_path
    return path


def generate_checkpoint_state_proto(
    save_dir: str,
    model_checkpoint_path: str,
    all_model_checkpoint_paths: Sequence[str] | None = None,
    all_model_checkpoint_timestamps: Sequence[float] | None = None,
    last_preserved_timestamp: float | None = None,
) -> Message:
    """Return the CheckpointState that lists a folder's checkpoints, the newest last.

    Relative paths become paths as seen from save_dir, unless that is absolute. Raises ValueError
    for timestamps that are not one a path.
    """
    return _state(
        save_dir,
        model_checkpoint_path,
        all_model_checkpoint_paths or (),
        all_model_checkpoint_timestamps or (),
        last_preserved_timestamp,
        not os.path.isabs(save_dir),
    )


def _state(
    save_dir: str,
    model_checkpoint_path: str,
    all_model_checkpoint_paths: Sequence[str],
    all_model_checkpoint_timestamps: Sequence[float],
    last_preserved_timestamp: float | None,
    relative_paths: bool,
) -> Message:
    kept = list(all_model_checkpoint_paths)
    if not kept or kept[-1] != model_checkpoint_path:
        kept.append(model_checkpoint_path)
    if all_model_checkpoint_timestamps and len(all_model_checkpoint_timestamps) != len(kept):
        raise ValueError(
            "Checkpoint timestamps, if provided, must match checkpoint paths (got paths "
            f"{kept} and timestamps {all_model_checkpoint_timestamps})"
        )

    def listed(path: str) -> str:
        return os.path.relpath(path, save_dir) if relative_paths else path

    return CheckpointState(
        model_checkpoint_path=listed(model_checkpoint_path),
        all_model_checkpoint_paths=[listed(path) for path in kept],
        all_model_checkpoint_timestamps=list(all_model_checkpoint_timestamps),
        last_preserved_timestamp=last_preserved_timestamp or 0.0,
    )


def get_checkpoint_mtimes(checkpoint_prefixes: Sequence[str]) -> list[float]:
    """Return the times of checkpoints in whole seconds since 1970.

    Checkpoints that do not exist are left out.
    """
    found = []
    for prefix in checkpoint_prefixes:
        for path in (f"{prefix}.index", prefix):  # the older format has one file
            if os.path.exists(path):
                found.append(float(int(os.stat(path).st_mtime)))
                break
    return found


def checkpoints_iterator(
    checkpoint_dir: str | os.PathLike[str],
    min_interval_secs: float = 0,
    timeout: float | None = None,
    timeout_fn: Callable[[], bool] | None = None,
) -> Iterator[str]:
    """Yield the prefix of each new checkpoint of a folder.

    min_interval_secs: the least time between two. timeout: the longest wait for one, in seconds.
    The iterator ends after this wait; with timeout_fn, once that returns true.
    """
    last = None
    while True:
        found = _new_checkpoint(os.fspath(checkpoint_dir), last, timeout)
        if found is not None:
            start = time.time()
            last = found
            yield found
            rest = start + min_interval_secs - time.time()
            if rest > 0:
                time.sleep(rest)
        elif timeout_fn is None:
            return
        if timeout_fn is not None and timeout_fn():
            return


def _new_checkpoint(folder: str, last: str | None, timeout: float | None) -> str | None:
    """Wait for a checkpoint other than the last.

    Returns None when the time is over.
    """
    end = None if timeout is None else time.time() + timeout
    while True:
        found = latest_checkpoint(folder)
        if found is not None and found != last:
            return found
        if end is not None and time.time() + _POLL_SECONDS > end:
            return None
        time.sleep(_POLL_SECONDS)


def update_checkpoint_state(
    save_dir: str,
    model_checkpoint_path: str,
    all_model_checkpoint_paths: Sequence[str] | None = None,
    latest_filename: str | None = None,
    all_model_checkpoint_timestamps: Sequence[float] | None = None,
    last_preserved_timestamp: float | None = None,
) -> None:
    """Write the file that lists a folder's checkpoints, the newest last.

    Raises RuntimeError when the list would be named as one of the checkpoints, ValueError for
    timestamps that are not one a path.
    """
    write_state(
        save_dir,
        model_checkpoint_path,
        all_model_checkpoint_paths or (),
        latest_filename,
        all_model_checkpoint_timestamps or (),
        last_preserved_timestamp,
    )


def write_state(
    save_dir: str,
    model_checkpoint_path: str,
    all_model_checkpoint_paths: Sequence[str],
    latest_filename: str | None,
    all_model_checkpoint_timestamps: Sequence[float],
    last_preserved_timestamp: float | None,
    relative_paths: bool = False,
) -> None:
    """Write the list of checkpoints, as `update_checkpoint_state`.

    relative_paths: as seen from the folder, so that it can be moved.
    """
    from google.protobuf import text_format

    state = _state(
        save_dir,
        model_checkpoint_path,
        all_model_checkpoint_paths,
        all_model_checkpoint_timestamps,
        last_preserved_timestamp,
        relative_paths or not os.path.isabs(save_dir),
    )
    target = os.path.join(save_dir, latest_filename or DEFAULT_NAME)
    if target == model_checkpoint_path:
        raise RuntimeError(
            f"Save path '{model_checkpoint_path}' conflicts with path used for checkpoint state.  "
            "Please use another save path."
        )
    temporary = f"{target}.tmp{os.getpid()}-{time.monotonic_ns()}"
    Path(temporary).write_text(text_format.MessageToString(state))
    os.replace(temporary, target)  # a concurrent reader sees the old list or the new one


def remove_checkpoint(
    checkpoint_prefix: str, checkpoint_format_version: Any = None, meta_graph_suffix: str = "meta"
) -> None:
    """Delete the files of a checkpoint.

    checkpoint_format_version: of SaverDef; without one, version 2.
    """
    from tfjit.protos import SaverDef

    found = glob.glob(glob.escape(meta_graph_path(checkpoint_prefix, meta_graph_suffix)))
    if checkpoint_format_version in (None, SaverDef.V2):
        for part in ("index", "data-?????-of-?????"):
            found += glob.glob(f"{glob.escape(checkpoint_prefix)}.{part}")
    else:
        found += files_of_v1(checkpoint_prefix)
    for path in found:
        os.unlink(path)


class CheckpointReader:
    """The contents of the checkpoint `filepattern`.

    filepattern: its prefix, or the name or pattern of its files. Versions 1 and 2 are read. Raises
    NotFoundError when there is none, DataLossError for files of another format.
    """

    def __init__(self, filepattern: str | os.PathLike[str]) -> None:
        path = os.fspath(filepattern)
        self._reader: BundleReader | SlicesReader
        if os.path.isfile(f"{path}.index"):
            self._reader = BundleReader(path)
        else:
            self._reader = SlicesReader(path)
        self._names = {name: self._reader.dtype_and_shape(name) for name in self._reader.names()}

    def get_variable_to_shape_map(self) -> dict[str, list[int]]:
        """Return a dictionary of name -> sizes."""
        return {name: [int(d) for d in shape] for name, (_, shape) in self._names.items()}

    def get_variable_to_dtype_map(self) -> dict[str, Any]:
        """Return a dictionary of name -> DType."""
        return {name: dtype for name, (dtype, _) in self._names.items()}

    def has_tensor(self, tensor_str: str) -> bool:
        """Return whether a tensor of this name is there."""
        return tensor_str in self._names

    def get_tensor(self, tensor_str: str) -> np.ndarray:
        """Return the value.

        Raises NotFoundError for an unknown name, DataLossError for a damaged one (NotFoundError in
        a checkpoint of version 1), UnimplementedError for one in slices in a checkpoint of
        version 1.
        """
        if isinstance(self._reader, BundleReader):
            if tensor_str not in self._names:
                raise errors.NotFoundError(None, None, f"Key {tensor_str} not found in checkpoint")
            value: np.ndarray = self._reader.read(tensor_str)
            return value
        if tensor_str in self._names:
            if self._reader.slice_count(tensor_str) > 1:
                raise errors.UnimplementedError(None, None, "Sliced checkpoints are not supported")
            with contextlib.suppress(errors.InvalidArgumentError):  # damaged
                return self._reader.read(tensor_str)
        raise errors.NotFoundError(None, None, f"{tensor_str} not found in checkpoint file")


NewCheckpointReader = CheckpointReader


def load_checkpoint(ckpt_dir_or_file: str | os.PathLike[str]) -> CheckpointReader:
    """Return the reader of a checkpoint, or of a folder's newest one.

    Raises ValueError for a folder without any.
    """
    path = os.fspath(ckpt_dir_or_file)
    if os.path.isdir(path):
        found = latest_checkpoint(path)
        if found is None:
            raise ValueError(
                f"Couldn't find 'checkpoint' file or checkpoints in given directory {path}"
            )
        path = found
    return CheckpointReader(path)


def list_variables(ckpt_dir_or_file: str | os.PathLike[str]) -> list[tuple[str, list[int]]]:
    """Return names and sizes of a checkpoint's variables, by name."""
    return sorted(load_checkpoint(ckpt_dir_or_file).get_variable_to_shape_map().items())


def load_variable(ckpt_dir_or_file: str | os.PathLike[str], name: str) -> np.ndarray:
    """Return the value of one variable in a checkpoint."""
    return load_checkpoint(ckpt_dir_or_file).get_tensor(name.removesuffix(":0"))
