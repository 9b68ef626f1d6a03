"""Measure tfjit's sessions on a GPU: fused, and each node by itself."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import tfjit
from benchmarks.gpu.clock import DeviceClock, wall_us
from benchmarks.gpu.graphs import GPU, compare, on_gpu, sample
from benchmarks.work import work
from benchmarks.workload import Feeds, Workload
from tfjit.kernels.cuda.device.architecture import is_simulated
from tfjit.protos import CallableOptions, GraphDef
from tfjit.runtime.offload.device_program import DeviceProgram
from tfjit.runtime.resources.device_tensor import DTYPES, DeviceTensor

Record = dict[str, Any]
_COMPILE_S = 90.0
_SESSIONS = 20


class OnGpu:
    """A session with all nodes of a graph on GPU:0.

    fused: else each node has a kernel.
    """

    def __init__(self, workload: Workload, data: bytes, fused: bool = True) -> None:
        config = tfjit.ConfigProto(allow_soft_placement=True)
        # else the host runs the first steps, and its kernels are compiled too
        config.graph_options.optimizer_options.global_jit_level = 1
        if not fused:
            config.graph_options.rewrite_options.remapping = 2  # OFF
        self.workload = workload
        self.session = tfjit.Session(graph=on_gpu(data), config=config)
        runtime: Any = self.session._runtime_session
        self.device = runtime.devices.accelerator(GPU)
        if self.device is None:
            raise RuntimeError(f"the session has no {GPU}")
        self.reset()

    def reset(self) -> None:
        """Run the workload's set-up operations."""
        if self.workload.setup:
            self.session.run(list(self.workload.setup))

    def run(self, feeds: Feeds) -> list[np.ndarray]:
        """Return the fetched arrays of one run."""
        found = self.session.run([*self.workload.fetches, *self.workload.targets], feeds)
        return found[: len(self.workload.fetches)]

    def resident(self, feeds: Feeds) -> Any:
        """Return a function of one run whose values stay on the device."""
        options = CallableOptions(
            feed=list(feeds),
            fetch=list(self.workload.fetches),
            target=list(self.workload.targets),
            fetch_skip_sync=True,
        )
        values: list[Any] = []
        for name, value in feeds.items():
            if np.asarray(value).dtype.name in DTYPES:
                options.feed_devices[name] = GPU
                value = DeviceTensor.of_array(self.device, np.asarray(value))
            values.append(value)
        for name in self.workload.fetches:
            options.fetch_devices[name] = GPU
        call = self.session._make_callable_from_options(options)
        return lambda: call(*values)

    def outputs(self, feeds: Feeds) -> list[list[np.ndarray]]:
        """Return the outputs of the runs that are compared."""
        self.reset()
        return [self.run(feeds) for _ in range(self.workload.steps)]

    def settle(self, call: Any) -> None:
        """Run until every kernel is loaded and every address recurs."""
        call()
        if not self.session.wait_until_compiled(_COMPILE_S):
            raise RuntimeError(f"kernels are not compiled after {_COMPILE_S:.0f} s")
        for _ in range(4):
            call()

    def close(self) -> None:
        """Close the session."""
        self.session.close()


def _programs() -> dict[DeviceProgram, int]:
    """Return the programs of the process with the numbers of their runs."""
    return {o: o.runs for o in gc.get_objects() if isinstance(o, DeviceProgram)}


def measure(
    workload: Workload,
    data: bytes,
    feeds: Feeds,
    fused: bool,
    expected: Sequence[Sequence[np.ndarray]],
) -> Record:
    """Return the figures of one workload; its outputs are checked first.

    expected: of a session of the host, as `on_host` gives them. Raises AssertionError for outputs
    that differ.
    """
    mine = OnGpu(workload, data, fused)
    try:
        mine.settle(lambda: mine.run(feeds))
        outputs = mine.outputs(feeds)
        compare(workload, outputs, expected)
        wall = wall_us(lambda: mine.run(feeds))
        call = mine.resident(feeds)
        mine.settle(call)
        before = _programs()
        kept = call()  # its memory is written again below
        mine.device.synchronize()
        used = {p: runs - before.get(p, 0) for p, runs in _programs().items()}
        used = {program: count for program, count in used.items() if count}
        clock = DeviceClock(mine.device)
        device_s = sum(count * clock.each(program.replay) for program, count in used.items())
        # replays of a small program find its values in the cache
        cold_s = sum(
            count * clock.cold(program.replay, is_simulated()) for program, count in used.items()
        )
        del kept

        def resident() -> None:
            call()
            mine.device.synchronize()

        libraries: Counter[str] = Counter()
        for program, count in used.items():
            libraries.update({name: n * count for name, n in program.libraries.items()})
        moved, flops = work(workload, data, feeds, outputs[0])
        return {
            "device_us": device_s * 1e6,
            "cold_us": cold_s * 1e6,
            "wall_us": wall,
            "resident_us": wall_us(resident),
            "launches": sum(count * program.launches for program, count in used.items()),
            "programs": sum(used.values()),
            "device_bytes": sum(program.device_bytes for program in used),
            "bytes": moved,
            "flops": flops,
            "libraries": libraries,
            "note": _note(libraries) if used else "no node runs on the device",
        }
    finally:
        mine.close()


def _note(libraries: Mapping[str, int]) -> str:
    """Return "9 by cuBLASLt": the launches of each library."""
    return ", ".join(f"{count} by {name}" for name, count in sorted(libraries.items()))


def on_host(workload: Workload, data: bytes, feeds: Feeds) -> list[list[np.ndarray]]:
    """Return samples of the outputs of a session without a GPU."""
    config = tfjit.ConfigProto(device_count={"GPU": 0})
    # nothing is compiled for these few runs
    config.graph_options.optimizer_options.global_jit_level = -1
    with tfjit.Session(graph=GraphDef.FromString(data), config=config) as session:
        if workload.setup:
            session.run(list(workload.setup))
        fetches = [*workload.fetches, *workload.targets]
        runs = [session.run(fetches, feeds) for _ in range(workload.steps)]
    return [[sample(v) for v in found[: len(workload.fetches)]] for found in runs]


def memory_of_sessions(workload: Workload, data: bytes, feeds: Feeds) -> Record:
    """Return the device memory in use after sessions that were opened and closed."""
    first = OnGpu(workload, data)
    first.settle(lambda: first.run(feeds))
    device = first.device
    in_one = device.memory.used
    first.close()
    free = _free_bytes(device)
    for _ in range(_SESSIONS):
        mine = OnGpu(workload, data)
        mine.settle(lambda mine=mine: mine.run(feeds))
        mine.close()
        del mine
    device.synchronize()
    return {
        "sessions": _SESSIONS,
        "bytes_of_one": in_one,
        "bytes_after": device.memory.used,
        "bytes_taken": free - _free_bytes(device),
    }


def _free_bytes(device: Any) -> int:
    context = getattr(device, "context", None)
    return int(context.free_bytes()) if context is not None else 0
