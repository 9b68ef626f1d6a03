"""Give the static steps of a session their threads and memory."""

from __future__ import annotations

from typing import Any

from tfjit.kernels.executor.thread_pool import IntraOpPool, get_pool
from tfjit.kernels.jit.store import store
from tfjit.kernels.jit.target import available_cpus
from tfjit.runtime.host import inter_op_pool as inter_op
from tfjit.runtime.host import thread_counts
from tfjit.runtime.host.device import DeviceManager
from tfjit.runtime.resources.variables_and_resources import SessionState
from tfjit.runtime.session import session_config
from tfjit.runtime.step.arena import ArenaPool
from tfjit.runtime.step.memory_planner import OutputRecycler
from tfjit.runtime.step.step import StepEnvironment


class StepEnvironments:
    """The environments of static steps, by device.

    They follow from the ConfigProto and the settings at the session's start. threads: intra-op
    threads. arenas, recycler: the memory of all steps.
    """

    def __init__(
        self,
        config: Any,
        devices: DeviceManager,
        state: SessionState,
        pools: inter_op.PoolSet,
        recycler: OutputRecycler,
    ) -> None:
        self.threads = session_config.intra_op_threads(config)
        self.arenas = ArenaPool()
        self.recycler = recycler
        self._config, self._devices, self._state, self._pools = config, devices, state, pools
        self._bundles = session_config.bundles()
        self._splits = session_config.splits_rows()
        self._compares = session_config.compares()
        self._compiles = session_config.jit_mode(config) != "off"

    @property
    def split_threads(self) -> int:
        """Threads that the rows of a loop are divided between."""
        return min(self.threads, available_cpus()) if self._splits else 1

    def of(self, device: str) -> StepEnvironment:
        """Return the environment of static steps on a device."""
        threads = self.threads
        inter_op_threads = min(
            self._pools.get(0).num_threads, thread_counts.inter_op_threads(self._config)
        )
        config = self._config
        spinning = config is None or not config.experimental.disable_thread_spinning

        def pool() -> IntraOpPool | None:
            count = threads if threads > 1 else inter_op_threads if self._bundles else 1
            return get_pool(count, spinning) if count > 1 else None

        found = self._devices.lookup(device)
        ways = self._bundles, inter_op_threads, self._compiles, self._compares
        return StepEnvironment(
            found, self._state, pool, threads, self.recycler, self.arenas, store.lookup, *ways
        )

    def clear(self) -> None:
        """Free the memory."""
        self.recycler.clear()
        self.arenas.clear()

    def after_fork(self) -> None:
        """Release the memory's locks in a forked child."""
        self.recycler.after_fork()
        self.arenas.after_fork()
