"""The command line of tfjit.

The commands are `tfjit run | explain | view | compare | bench | bisect | inspect | pack | passes |
config | warm | server | demo`, and `tfjit script.py args...`.

Exit codes: 0 done, 1 the model or its run failed, 2 the command line is wrong, 130 interrupted; of
a script, its own. Results go to stdout, everything else to stderr.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from tfjit import (
    __version__,
    bench_command,
    bisect_command,
    compare_command,
    explain_command,
    pack_command,
    passes_command,
    run_command,
    server_command,
    view_command,
    warm_command,
)
from tfjit.arguments import MODEL, UsageError, read_model_of
from tfjit.framework import settings
from tfjit.framework.errors import OpError


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit code.

    argv: this process's command line by default.
    """
    given = list(sys.argv[1:] if argv is None else argv)
    if given and (given[0] == "-m" or given[0].endswith(".py")):
        return _run_program(given)
    parser = _parser()
    given, behind = bisect_command.split_arguments(given)
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

    for name, text, add_arguments, function in _COMMANDS:
        command = commands.add_parser(name, help=text, description=text)
        command.set_defaults(command=function)
        add_arguments(command)
    return parser


def _add_config_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "name",
        metavar="NAME",
        nargs="?",
        default="",
        help="only fields whose message or name contains this",
    )


def _config(args: argparse.Namespace) -> int:
    from tfjit.runtime.session.config_fields import describe

    print(describe(args.name), end="")
    return 0


def _add_inspect_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help=MODEL)


def _inspect(args: argparse.Namespace) -> int:
    from tfjit.inspection import inspect_model

    print(inspect_model(read_model_of(args.model)))
    return 0


def _add_demo_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--seconds",
        metavar="S",
        type=float,
        default=2.0,
        help="time to spend on each measurement (default 2)",
    )
    parser.add_argument(
        "--no-tensorflow",
        action="store_true",
        help="do not time TensorFlow even if it is installed",
    )


def _demo(args: argparse.Namespace) -> int:
    from tfjit.demo.digits import run_demo

    if args.seconds <= 0:
        raise UsageError(f"--seconds {args.seconds}: expected a positive number")
    return run_demo(seconds=args.seconds, tensorflow=not args.no_tensorflow)


_Command = tuple[
    str, str, Callable[[argparse.ArgumentParser], None], Callable[[argparse.Namespace], int]
]

_COMMANDS: Final[tuple[_Command, ...]] = (
    ("run", run_command.TEXT, run_command.add_arguments, run_command.run),
    ("explain", explain_command.TEXT, explain_command.add_arguments, explain_command.explain),
    ("view", view_command.TEXT, view_command.add_arguments, view_command.view),
    (
        "inspect",
        "Show inputs, outputs, variables, ops and size of a model.",
        _add_inspect_arguments,
        _inspect,
    ),
    ("bisect", bisect_command.TEXT, bisect_command.add_arguments, bisect_command.bisect),
    ("pack", pack_command.TEXT, pack_command.add_arguments, pack_command.pack),
    (
        "config",
        "Show the effect of each field of ConfigProto and RunOptions.",
        _add_config_arguments,
        _config,
    ),
    ("passes", passes_command.TEXT, passes_command.add_option, passes_command.show_passes),
    ("compare", compare_command.TEXT, compare_command.add_arguments, compare_command.run_compare),
    ("bench", bench_command.TEXT, bench_command.add_arguments, bench_command.run_bench),
    ("warm", warm_command.TEXT, warm_command.add_arguments, warm_command.warm),
    ("server", server_command.TEXT, server_command.add_arguments, server_command.serve),
    (
        "demo",
        "Classify the digits that come with tfjit and show how fast that is.",
        _add_demo_arguments,
        _demo,
    ),
)
"""The commands: their name, help, arguments and function."""
