"""Run `tfjit server`: serve a task of a cluster until a signal."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from tfjit.arguments import UsageError

if TYPE_CHECKING:
    import argparse

    from tfjit.distributed.protocol.credentials import Credentials

_Parsed = TypeVar("_Parsed")


_LOOK_S: Final = 0.2
"""The seconds between looks for a signal."""


TEXT: Final = (
    "Serve a task of a cluster to sessions and to the other tasks, until SIGTERM or SIGINT. "
    "Whoever reaches a server runs any graph on it."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "--cluster",
        metavar="CLUSTER",
        help="'ps=host:2222;worker=host:2223,host:2224', or JSON {\"job\": [addresses]}, or a file "
        "of either (default: that of TF_CONFIG)",
    )
    parser.add_argument(
        "--job", metavar="NAME", help="job of this task (default: that of TF_CONFIG, or the only)"
    )
    parser.add_argument(
        "--task",
        metavar="INDEX",
        type=int,
        help="index of this task (default: that of TF_CONFIG, or the only)",
    )
    parser.add_argument(
        "--config",
        metavar="CONFIG",
        help="ConfigProto, the default of sessions, as text or JSON, or a file of either",
    )
    parser.add_argument(
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
        parser.add_argument(f"--tls-{option}", metavar="FILE", type=Path, help=text)
    parser.add_argument(
        "--grace",
        metavar="SECONDS",
        type=float,
        default=10.0,
        help="time for running steps after a signal, before they are cancelled (default 10)",
    )


def serve(args: argparse.Namespace) -> int:
    """Run the command with its parsed arguments; return the exit code."""
    from tfjit.distributed.server.cluster_config import (
        TF_CONFIG,
        parse_cluster,
        parse_config,
        parse_tf_config,
    )

    if args.grace < 0:
        raise UsageError(f"--grace {args.grace}: expected a number that is not negative")
    known = _read(parse_tf_config, os.environ.get(TF_CONFIG, ""), "")
    cluster = known.cluster
    if args.cluster is not None:
        cluster = _read(parse_cluster, _contents(args.cluster), f"--cluster {args.cluster}: ")
    if cluster is None:
        raise UsageError("no cluster: give --cluster, or set TF_CONFIG")
    job = args.job if args.job is not None else known.job
    if job is None and len(cluster.jobs) == 1:
        job = cluster.jobs[0]
    if job not in cluster.jobs:
        given = "the job of this task is not given" if job is None else f"there is no job {job}"
        raise UsageError(f"{given}: the cluster has {', '.join(map(str, cluster.jobs))}")
    task = args.task if args.task is not None else known.task
    indices = cluster.task_indices(job)
    if task is None and len(indices) == 1:
        task = indices[0]
    if task not in indices:
        given = "the index of this task is not given" if task is None else f"no task {task}"
        raise UsageError(f"{given}: the job {job} has {', '.join(map(str, indices))}")
    config = None
    if args.config is not None:
        config = _read(parse_config, _contents(args.config), f"--config {args.config}: ")
    return _serve(
        args.grace,
        (cluster, job, task, known.protocol, config),
        {"bind": args.bind, "credentials": _credentials(args)},
    )


def _read(parse: Callable[[str], _Parsed], text: str, subject: str) -> _Parsed:
    try:
        return parse(text)
    except ValueError as error:
        raise UsageError(f"{subject}{error}") from None


def _contents(argument: str) -> str:
    """Return the text of the file of that name, else the argument."""
    if os.path.isfile(argument):  # False also for text too long for a name
        try:
            return Path(argument).read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"{argument} cannot be read: {error}") from None
    return argument


def _credentials(args: argparse.Namespace) -> Credentials | None:
    """Return the credentials that the options name, or None."""
    from tfjit.distributed.protocol.credentials import Credentials

    key, certificate, authority = args.tls_key, args.tls_cert, args.tls_ca
    if (key is None) != (certificate is None) or (key is None and authority is not None):
        raise UsageError("TLS needs both --tls-key and --tls-cert")
    if key is None:
        return None
    try:
        return Credentials.from_files(key, certificate, authority)
    except OSError as error:
        raise UsageError(f"{error.filename} cannot be read: {error.strerror}") from None


def _serve(grace_s: float, place: tuple[Any, ...], options: dict[str, Any]) -> int:
    """Serve until a signal; a second one ends the process at once."""
    from tfjit.distributed.server.server import Server

    asked: list[int] = []
    over = threading.Event()

    def on_signal(number: int, frame: object) -> None:
        asked.append(number)
        for other in before:
            signal.signal(other, signal.SIG_DFL)
        over.set()

    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    for number in before:
        signal.signal(number, on_signal)
    try:
        server = Server(*place, **options)
        print(f"{server.task} serves {server.target}", flush=True)
        # a signal that another thread gets does not end a wait of this one
        while not over.wait(_LOOK_S):
            pass
        server.stop(grace_s)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return 130 if asked[-1] == signal.SIGINT else 0
