"""The machine and the process that tests run in."""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import socket
import tempfile
import unittest
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Message, Structure

_Function = TypeVar("_Function", bound=Callable[..., object])


@functools.cache
def get_temp_dir() -> str:
    """Return a folder for tests, which is deleted at the end."""
    folder = os.environ.get("TEST_TMPDIR")
    if folder is not None:
        os.makedirs(folder, exist_ok=True)
        return folder
    made = tempfile.mkdtemp(prefix="tfjit-test-")
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


def test_src_dir_path(relative_path: str) -> str:
    """Return the path of a source file in a run of Bazel.

    Raises KeyError outside one.
    """
    root = os.environ["TEST_SRCDIR"]
    return os.path.join(root, os.environ["TEST_WORKSPACE"], "tensorflow", relative_path)


test_src_dir_path.__test__ = False  # type: ignore[attr-defined]  # no test for pytest


def gpu_device_name() -> str:
    """Return the name of the first GPU, or "" without one."""
    from tfjit.client.session.session import Session
    from tfjit.framework.graphs.graph import Graph

    with Session(graph=Graph()) as session:
        names = [d.name for d in session.list_devices() if d.device_type == "GPU"]
    return f"/device:{names[0].rpartition('device:')[2]}" if names else ""


def is_gpu_available(
    cuda_only: bool = False, min_cuda_compute_capability: tuple[int, int] | None = None
) -> bool:
    """Return whether there is a GPU, with at least a compute capability.

    All GPUs that tfjit knows are CUDA's.
    """
    if not gpu_device_name():
        return False
    if min_cuda_compute_capability is None:
        return True
    from tfjit.kernels.cuda.device import driver

    return tuple(driver.properties(0).compute_capability) >= tuple(min_cuda_compute_capability)


def is_built_with_cuda() -> bool:
    """Return True: kernels for CUDA are made when a GPU needs them."""
    return True


def is_built_with_gpu_support() -> bool:
    """Return True: kernels for CUDA are made when a GPU needs them."""
    return True


def is_built_with_rocm() -> bool:
    """Return False: there are no kernels for ROCm."""
    return False


def is_built_with_xla() -> bool:
    """Return False: XLA is no part of tfjit."""
    return False


def disable_with_predicate(
    pred: Callable[[], object], skip_message: str
) -> Callable[[_Function], _Function]:
    """Return a decorator that skips tests where the predicate is true."""

    def decorator(test: _Function) -> _Function:
        @functools.wraps(test)
        def run(self: unittest.TestCase, *args: object, **kwargs: object) -> object:
            if pred():
                self.skipTest(skip_message)
            return test(self, *args, **kwargs)

        wrapped: Structure = run
        return wrapped

    return decorator


def create_local_cluster(
    num_workers: int,
    num_ps: int,
    protocol: str = "grpc",
    worker_config: Message = None,
    ps_config: Message = None,
) -> tuple[list[Structure], list[Structure]]:
    """Start the servers of a cluster in this process.

    Returns those of workers and those of "ps".
    """
    from tfjit.distributed.server.server import Server
    from tfjit.framework.types.cluster_spec import ClusterSpec

    counts = {"worker": num_workers, "ps": num_ps}
    with _Ports() as ports:
        tasks = {job: [f"localhost:{ports.take()}" for _ in range(n)] for job, n in counts.items()}
    cluster = ClusterSpec(tasks)
    configs = {"worker": worker_config, "ps": ps_config}
    servers = {
        job: [
            Server(cluster, job, index, protocol=protocol, config=configs[job], start=True)
            for index in range(count)
        ]
        for job, count in counts.items()
    }
    return servers["worker"], servers["ps"]


class _Ports:
    """Free ports of this host, all different."""

    def __enter__(self) -> _Ports:
        self._sockets: list[socket.socket] = []
        return self

    def __exit__(self, *exc_info: object) -> None:
        for bound in self._sockets:
            bound.close()

    def take(self) -> int:
        bound = socket.socket()
        bound.bind(("localhost", 0))
        self._sockets.append(bound)
        port: int = bound.getsockname()[1]
        return port
