"""The command line of tfjit.

The commands are `tfjit run | explain | view | compare | bench | bisect | inspect | pack | passes |
config | warm | server | demo`, and `tfjit script.py args...`.

Exit codes: 0 done, 1 the model or its run failed, 2 the command line is wrong, 130 interrupted; of
a script, its own. Results go to stdout, everything else to stderr.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfjit import __version__, bench_command, compare_command, passes_command, view_command
from tfjit.arguments import (
    UsageError,
    feeds_of,
    fetches_of,
    read_model_of,
    shapes_of,
    tensor_name,
)
from tfjit.bisect_command import TEXT as BISECT
from tfjit.bisect_command import add_arguments as add_bisect_arguments
from tfjit.bisect_command import split_arguments
from tfjit.framework import settings
from tfjit.framework.errors import OpError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tfjit.client.session.model_file import ModelFile


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit code.

    argv: this process's command line by default.
    """
    given = list(sys.argv[1:] if argv is None else argv)
    if given and (given[0] == "-m" or given[0].endswith(".py")):
        return _run_program(given)
    parser = _parser()
    given, behind = split_arguments(given)
    args = parser.parse_args(given, argparse.Namespace(arguments=behind))
    try:
        code: int = args.command(args)
        sys.stdout.flush()
        return code
    except UsageError as error:
        print(f"tfjit {args.name}: {error}", file=sys.stderr)
        return 2
    except OpError as error:
        print(f"tfjit {args.name}: {type(error).__name__}: {error}", file=sys.stderr)
        return _failed(error)
    except (ValueError, TypeError, KeyError, RuntimeError, NotImplementedError) as error:
        # The errors of Session.run for feeds and fetches that do not fit, as TensorFlow's are.
        print(f"tfjit {args.name}: {type(error).__name__}: {error}", file=sys.stderr)
        return _failed(error)
    except BrokenPipeError:
        # The reader of stdout has closed its end. Closing stdout again at exit would complain, so
        # further output is dropped.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        print(f"tfjit {args.name}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"tfjit {args.name}: interrupted", file=sys.stderr)
        return 130


def _failed(error: BaseException) -> int:
    """Print the traceback where the user asked for it; return 1."""
    if settings.flag("TFJIT_FULL_TRACEBACK"):
        import traceback

        traceback.print_exception(error)
    return 1


def _run_program(argv: list[str]) -> int:
    """Run `script.py args...` or `-m module args...` as `python` would.

    tfjit's sessions take TensorFlow's place.
    """
    import runpy

    from tfjit.client.session.patch_tensorflow import patch_tensorflow

    as_module = argv[0] == "-m"
    if as_module and len(argv) == 1:
        print("tfjit: -m needs the name of a module", file=sys.stderr)
        return 2
    if not as_module and not Path(argv[0]).is_file():
        print(f"tfjit: can't open file {argv[0]!r}: no such file", file=sys.stderr)
        return 2
    sys.argv[:] = argv[1:] if as_module else argv
    with patch_tensorflow():
        if as_module:
            sys.path.insert(0, os.getcwd())
            runpy.run_module(argv[1], run_name="__main__", alter_sys=True)
        else:
            sys.path[0] = str(Path(argv[0]).resolve().parent)
            runpy.run_path(argv[0], run_name="__main__")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tfjit",
        description="Run TensorFlow 1 graphs, compiled with Numba.",
        epilog="tfjit script.py [args...] and tfjit -m module [args...] run an unmodified "
        "TensorFlow 1 program on tfjit's sessions.",
    )
    parser.add_argument("--version", action="version", version=f"tfjit {__version__}")
    commands = parser.add_subparsers(
        title="commands", dest="name", required=True, metavar="COMMAND"
    )

    def command(
        name: str, function: Callable[[argparse.Namespace], int], text: str
    ) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=text, description=text)
        sub.set_defaults(command=function)
        return sub

    source = "a GraphDef or MetaGraphDef file (.pb, .meta, .pbtxt), or the folder of a SavedModel"
    model = f"{source}, or a pack"

    def several(sub: argparse.ArgumentParser, option: str, metavar: str, text: str) -> None:
        """Add an option that takes several values and may be repeated."""
        sub.add_argument(option, metavar=metavar, action="extend", nargs="+", default=[], help=text)

    feed = "value of the tensor NAME: FILE.npy, or FILE.npz:ARRAY"

    run = command("run", _run, "Run a graph once and print or write the fetched values.")
    run.add_argument("model", metavar="MODEL", help=model)
    several(run, "--feed", "NAME=FILE", feed)
    several(run, "--fetch", "NAME", "tensor to compute, or operation to run; at least one")
    run.add_argument(
        "--out",
        metavar="DIR",
        type=Path,
        help="write each fetched value to DIR/NAME.npy instead of printing it",
    )
    passes_command.add_option(run)
    run.add_argument(
        "--trace",
        metavar="FILE",
        type=Path,
        help="compile first, then write a timeline of the step, for chrome://tracing or Perfetto",
    )

    explain = command(
        "explain",
        _explain,
        "Show where time and memory go, and what is not fused or compiled; with --details each "
        "pass, fused group and kernel.",
    )
    explain.add_argument("model", metavar="MODEL", help=model)
    several(explain, "--fetch", "NAME", "tensor to compute; at least one")
    several(explain, "--feed", "NAME=FILE", feed)
    several(
        explain,
        "--shape",
        "NAME=SIZES",
        "shape of a feed instead of a value, as in images:0=1,8,8,1",
    )

    passes_command.add_option(explain)
    explain.add_argument(
        "--measure",
        action="store_true",
        help="time each kernel in place, beside its prediction and the machine's limits",
    )
    explain.add_argument(
        "--details",
        action="store_true",
        help="print each pass, node, fused group and remark behind the summary",
    )
    explain.add_argument("--json", action="store_true", help="print JSON instead of text")

    view = command(
        "view",
        _view,
        "Write one HTML file that shows the graph, what each pass changed, fused groups, kernels "
        "with their source and times.",
    )
    view_command.add_arguments(view, several, model)
    passes_command.add_option(view)

    inspect = command(
        "inspect", _inspect, "Show inputs, outputs, variables, ops and size of a model."
    )
    inspect.add_argument("model", metavar="MODEL", help=model)

    add_bisect_arguments(command("bisect", _bisect, BISECT))

    pack = command(
        "pack",
        _pack,
        "Write a model with its plans and compiled kernels into one file, from which "
        "tfjit.Session(graph=FILE) starts at compiled speed, without Numba and a cache.",
    )
    pack.add_argument("model", metavar="MODEL", help=source)
    several(
        pack,
        "--feed",
        "NAME=SIZES",
        "a shape of the tensor NAME, as in images:0=1,8,8,1, or FILE.npy, a value; several for one "
        "NAME make several plans",
    )
    several(
        pack,
        "--fetch",
        "NAME",
        "tensor to compute, or operation to run (default: the outputs of the signature)",
    )
    pack.add_argument(
        "--signature",
        metavar="NAME",
        default="",
        help="of a SavedModel: its names are those of feeds and fetches (default: the only one, or "
        "serving_default)",
    )
    several(
        pack,
        "--cpu",
        "LEVEL",
        "level of x86-64 that runs it: x86-64-v2, -v3 (AVX2) or -v4 (AVX-512); several for several "
        "machines (default: the highest of this CPU)",
    )
    pack.add_argument("-o", "--out", metavar="FILE", type=Path, required=True, help="the pack")
    pack.add_argument(
        "--processes", metavar="N", type=int, default=0, help="compilers at a time (default: cores)"
    )

    config = command(
        "config", _config, "Show the effect of each field of ConfigProto and RunOptions."
    )
    config.add_argument(
        "name",
        metavar="NAME",
        nargs="?",
        default="",
        help="only fields whose message or name contains this",
    )

    passes = command(
        "passes",
        _passes,
        "Print the passes in order, each with its group and the reason for its place, in a form "
        "that --passes reads.",
    )
    passes_command.add_option(passes)

    compare_command.add_arguments(
        command(
            "compare",
            compare_command.run_compare,
            "Compare pipelines of passes, and other runtimes, on one graph: outputs first, then "
            "times in random order, with their noise, then the parts of the graph that differ.",
        )
    )
    bench_command.add_arguments(
        command(
            "bench",
            bench_command.run_bench,
            "Time a model or a script.py fused, unfused and under TensorFlow, and against a saved "
            "measurement.",
        )
    )

    warm = command(
        "warm",
        _warm,
        "Compile the kernels that most graphs need into an archive in this machine's cache, on all "
        "cores. An installed wheel has them; elsewhere a background process compiles them slowly.",
    )
    warm.add_argument(
        "--processes", metavar="N", type=int, default=0, help="compilers at a time (default: cores)"
    )

    server = command(
        "server",
        _server,
        "Serve a task of a cluster to sessions and to the other tasks, until SIGTERM or SIGINT. "
        "Whoever reaches a server runs any graph on it.",
    )
    server.add_argument(
        "--cluster",
        metavar="CLUSTER",
        help="'ps=host:2222;worker=host:2223,host:2224', or JSON {\"job\": [addresses]}, or a file "
        "of either (default: that of TF_CONFIG)",
    )
    server.add_argument(
        "--job", metavar="NAME", help="job of this task (default: that of TF_CONFIG, or the only)"
    )
    server.add_argument(
        "--task",
        metavar="INDEX",
        type=int,
        help="index of this task (default: that of TF_CONFIG, or the only)",
    )
    server.add_argument(
        "--config",
        metavar="CONFIG",
        help="ConfigProto, the default of sessions, as text or JSON, or a file of either",
    )
    server.add_argument(
        "--bind",
        metavar="ADDRESS",
        help="address of the interface to listen at, 0.0.0.0 for all (default: TFJIT_BIND, or "
        "loopback)",
    )
    for option, text in (
        ("key", "PEM file of the private key"),
        ("cert", "PEM file of the certificate"),
        ("ca", "PEM file of the authority that signs the certificates of all tasks and clients"),
    ):
        server.add_argument(f"--tls-{option}", metavar="FILE", type=Path, help=text)
    server.add_argument(
        "--grace",
        metavar="SECONDS",
        type=float,
        default=10.0,
        help="time for running steps after a signal, before they are cancelled (default 10)",
    )

    demo = command(
        "demo", _demo, "Classify the digits that come with tfjit and show how fast that is."
    )
    demo.add_argument(
        "--seconds",
        metavar="S",
        type=float,
        default=2.0,
        help="time to spend on each measurement (default 2)",
    )
    demo.add_argument(
        "--no-tensorflow",
        action="store_true",
        help="do not time TensorFlow even if it is installed",
    )
    return parser


def _config(args: argparse.Namespace) -> int:
    from tfjit.runtime.session.config_fields import describe

    print(describe(args.name), end="")
    return 0


def _passes(args: argparse.Namespace) -> int:
    return passes_command.show_passes(args)


def _inspect(args: argparse.Namespace) -> int:
    from tfjit.inspection import inspect_model

    print(inspect_model(read_model_of(args.model)))
    return 0


def _bisect(args: argparse.Namespace) -> int:
    from tfjit.bisect_command import bisect

    return bisect(args)


def _pack(args: argparse.Namespace) -> int:
    from tfjit.pack_command import pack

    return pack(args)


def _run(args: argparse.Namespace) -> int:
    from tfjit.protos import ConfigProto, OptimizerOptions, RunMetadata, RunOptions

    fetches = fetches_of(args.fetch)
    feeds = feeds_of(args.feed)
    passes = passes_command.pipeline_of(args.passes)
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
    with _progress(f"running {model.path.name}"), _opened(model, config, passes) as session:
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


def _explain(args: argparse.Namespace) -> int:
    fetches = fetches_of(args.fetch)
    shapes = shapes_of(args.shape)
    feeds = feeds_of(args.feed)
    passes = passes_command.pipeline_of(args.passes)
    model = read_model_of(args.model)
    with (
        _progress(f"explaining {model.path.name}"),
        _opened(model, passes=passes) as session,
    ):
        wanted = [tensor_name(model, name) for name in fetches]
        sizes, values = (
            {tensor_name(model, name): value for name, value in given.items()}
            for given in (shapes, feeds)
        )
        explanation = session.explain(wanted, sizes or None, args.measure, values or None)
    if args.json:
        import json

        print(json.dumps(explanation.as_json(), indent=1))
    else:
        print(explanation.summary(), end="")
        if args.details:
            print(f"\n{explanation.details()}", end="")
        else:
            print("\n--details adds each pass, node, fused group and remark")
    return 0


def _view(args: argparse.Namespace) -> int:
    view_command.check(args)
    passes = passes_command.pipeline_of(args.passes)
    model = read_model_of(args.model)
    with _progress(f"explaining {model.path.name}"), _opened(model, passes=passes) as session:
        return view_command.write_page(args, model, session)


def _warm(args: argparse.Namespace) -> int:
    from tfjit.kernels.jit.store import store
    from tfjit.kernels.jit.target import available_cpus
    from tfjit.kernels.precompile.own_archive import build_own_archive, building_alone, own_folder

    if args.processes < 0:
        raise UsageError(f"--processes {args.processes}: expected a positive number")
    if store.has_all_generic():
        print(f"the generic kernels are there: {store.archives()}")
        return 0
    terminal = sys.stderr.isatty()

    def show(done: int, total: int) -> None:
        if terminal:
            print(f"\rtfjit: {done} of {total} kernels", end="", file=sys.stderr, flush=True)

    folder = own_folder()
    try:
        with building_alone(folder):
            built = build_own_archive(folder, args.processes or available_cpus(), show)
    finally:
        if terminal:
            print(file=sys.stderr)
    print(f"{built.path}: {built.present} kernels were there, {built.compiled} are compiled")
    for reason in built.refused:
        print(f"tfjit: refused: {reason}", file=sys.stderr)
    return 1 if built.refused else 0


def _progress(work: str) -> contextlib.AbstractContextManager[object]:
    """Return a block that reports slow work on stderr.

    TFJIT_PROGRESS has its own line there, and then this is none.
    """
    from tfjit.demo.progress import Progress

    if settings.flag("TFJIT_PROGRESS"):
        return contextlib.nullcontext()
    return Progress(work, detail=_kernels_compiled)


def _kernels_compiled() -> str:
    """Return the number of compiled kernels as text.

    "" while none are compiled or pending.
    """
    from tfjit.kernels.jit.store import store

    counts = store.compile_counts()
    total = counts.done + counts.pending
    return f", {counts.done} of {total} kernels compiled" if total else ""


def _server(args: argparse.Namespace) -> int:
    from tfjit.server_command import serve

    return serve(args)


def _demo(args: argparse.Namespace) -> int:
    from tfjit.demo.digits import run_demo

    if args.seconds <= 0:
        raise UsageError(f"--seconds {args.seconds}: expected a positive number")
    return run_demo(seconds=args.seconds, tensorflow=not args.no_tensorflow)


@contextlib.contextmanager
def _opened(model: ModelFile, config: Any = None, passes: Any = None) -> Iterator[Any]:
    """Open a session over a model.

    For a SavedModel, with its variables, tables and assets. passes: a Pipeline or None.
    """
    from tfjit.lab.measure.candidates import open_model

    with open_model(model, config, passes) as session:
        yield session


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
