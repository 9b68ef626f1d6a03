"""Run `tfjit run`: run a graph once, print or write the values."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tfjit.arguments import (
    FEED,
    MODEL,
    UsageError,
    add_several,
    feeds_of,
    fetches_of,
    read_model_of,
    tensor_name,
)
from tfjit.model_session import open_session, progress
from tfjit.passes_command import add_option as add_passes_option
from tfjit.passes_command import pipeline_of

if TYPE_CHECKING:
    import argparse

TEXT: Final = "Run a graph once and print or write the fetched values."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("model", metavar="MODEL", help=MODEL)
    add_several(parser, "--feed", "NAME=FILE", FEED)
    add_several(parser, "--fetch", "NAME", "tensor to compute, or operation to run; at least one")
    parser.add_argument(
        "--out",
        metavar="DIR",
        type=Path,
        help="write each fetched value to DIR/NAME.npy instead of printing it",
    )
    add_passes_option(parser)
    parser.add_argument(
        "--trace",
        metavar="FILE",
        type=Path,
        help="compile first, then write a timeline of the step, for chrome://tracing or Perfetto",
    )


def run(args: argparse.Namespace) -> int:
    """Run the command with its parsed arguments; return the exit code."""
    from tfjit.protos import ConfigProto, OptimizerOptions, RunMetadata, RunOptions

    fetches = fetches_of(args.fetch)
    feeds = feeds_of(args.feed)
    passes = pipeline_of(args.passes)
    if args.out is not None:
        _writable_folder(args.out)
    if args.trace is not None and not args.trace.parent.is_dir():
        raise UsageError(f"--trace {args.trace}: there is no folder {args.trace.parent}")
    model = read_model_of(args.model)
    config = options = metadata = None
    if args.trace is not None:
        # A timeline of the reference kernels, which serve while others compile, would show kernels
        # that never run again.
        config = ConfigProto()
        config.graph_options.optimizer_options.global_jit_level = OptimizerOptions.ON_1
        options, metadata = RunOptions(trace_level=RunOptions.FULL_TRACE), RunMetadata()
    with progress(f"running {model.path.name}"), open_session(model, config, passes) as session:
        named = {tensor_name(model, name): value for name, value in feeds.items()}
        values = session.run(
            [tensor_name(model, name) for name in fetches],
            named,
            options=options,
            run_metadata=metadata,
        )
    for name, value in zip(fetches, values, strict=True):
        if value is None:
            print(f"{name}: done", file=sys.stderr)
        elif args.out is not None:
            _save(value, args.out / f"{_file_name(name)}.npy", name)
        else:
            print(_summary(name, value))
    if metadata is not None:
        from tfjit.runtime.profiling.timeline import write_timeline

        count = write_timeline(metadata.step_stats, args.trace)
        print(f"{args.trace}: {count} node runs", file=sys.stderr)
    return 0


def _writable_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--out {folder}: {error.strerror}") from None


def _file_name(name: str) -> str:
    """Return a tensor's name as a file name: "layer/probs:0" -> "layer_probs_0"."""
    return name.lstrip("^").replace("/", "_").replace(":", "_")


def _save(value: Any, path: Path, name: str) -> None:
    import numpy as np

    array = np.asarray(value)
    if array.dtype == object:  # strings: fixed-size bytes load without pickle
        array = array.astype(np.bytes_)
    np.save(path, array, allow_pickle=False)
    print(f"{path}: {name} {array.dtype} {list(array.shape)}")


def _summary(name: str, value: Any) -> str:
    """Return an array's type, shape, range and first values as text."""
    import numpy as np

    array = np.asarray(value)
    text = f"{name}: {array.dtype} {list(array.shape)}"
    if array.size > 1 and array.dtype.kind in "iuf":
        text += (
            f", min {array.min():.6g}, mean {array.mean(dtype=np.float64):.6g}, "
            f"max {array.max():.6g}"
        )
    body = np.array2string(array, threshold=64, edgeitems=2, precision=6, max_line_width=120)
    return f"{text}\n{body}"
