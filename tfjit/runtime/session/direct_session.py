"""The session on local devices.

It holds the graph, its placement, plans and resources, and runs steps.
"""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from tfjit.framework import errors, settings
from tfjit.framework.gc_pause import collection_paused
from tfjit.framework.op_defs.op_traits import VARIABLE
from tfjit.framework.types.device_ends import ON_HOST, DeviceEnds
from tfjit.framework.types.dtypes import DType
from tfjit.framework.types.shape import Shape
from tfjit.kernels.executor.thread_pool import IntraOpPool, get_pool
from tfjit.kernels.jit.store import store
from tfjit.kernels.jit.target import available_cpus, check_level
from tfjit.runtime.executor.requested_kernels import RequestedKernels
from tfjit.runtime.factory import SessionFactory, SessionOptions
from tfjit.runtime.host import fork_safety, thread_counts
from tfjit.runtime.host import inter_op_pool as inter_op
from tfjit.runtime.host.cancellation import CancellationManager
from tfjit.runtime.host.device import TASK_PREFIX, DeviceManager
from tfjit.runtime.kernel_api.custom_kernels import CustomKernels
from tfjit.runtime.kernel_api.kernel_query import has_kernel
from tfjit.runtime.kernel_api.op_kernel import starts_stage
from tfjit.runtime.op_kernels.state import variable_ops
from tfjit.runtime.plan import upgrades
from tfjit.runtime.plan.fast_path import plan_runner
from tfjit.runtime.plan.host import Survey
from tfjit.runtime.plan.plan import Plan, Variant
from tfjit.runtime.plan.plan_cache_budget import VariantBudget
from tfjit.runtime.plan.renewals import Renewals
from tfjit.runtime.plan.shared_bodies import SharedBodies
from tfjit.runtime.resources.variables_and_resources import SessionState, Variable
from tfjit.runtime.session import rewriter_config, session_config
from tfjit.runtime.session.callables import Callables
from tfjit.runtime.session.open_sessions import OpenSessions, session_names
from tfjit.runtime.session.plan_cache import PlanCache
from tfjit.runtime.session.running_step import RunningStep
from tfjit.runtime.session_interface import PlanCounters, Runner, SessionInterface
from tfjit.runtime.step.arena import ArenaPool
from tfjit.runtime.step.memory_planner import OutputRecycler
from tfjit.runtime.step.step import StepEnvironment
from tfjit.runtime.stored_plans import plan_warm_start

if TYPE_CHECKING:
    from tfjit.passes.history.history import History
    from tfjit.passes.ir.dataflow_graph import DataflowGraph, Node
    from tfjit.passes.pipeline import Partition, PassOptions, Pipeline, PipelineReport, RunSpec
    from tfjit.runtime.collectives.collective_manager import CollectiveManager
    from tfjit.runtime.collectives.collective_params import Resolved
    from tfjit.runtime.collectives.step_collectives import NodeKey
    from tfjit.runtime.executor.dataflow_executor import DataflowPlan
    from tfjit.runtime.profiling.stages import PlanStages
    from tfjit.runtime.profiling.step_observer import StepObserver

log = logging.getLogger("tfjit.session")

_PATIENCE_S = 60
_NUMBERS = itertools.count(1)  # of the process's sessions
_OPEN: Final = OpenSessions()


def open_sessions() -> list[DirectSession]:
    """Return the open sessions of the process, oldest first."""
    return _OPEN.all()


class DirectSession(SessionInterface):
    """A session that runs on the devices of this process.

    graph: the whole placed graph, extended as it grows. state: variables, queues and streams,
    shared by all plans. Thread-safe: concurrent runs share plans; `extend` waits for plan building
    only.
    """

    internal_names = False  # names of nodes may begin with "_": passes made the graph
    collectives_by_step = True  # members agree anew in each step, rather than once for all steps
    collective_leader = ""  # the task that knows the groups of collectives, "" for this one

    def __init__(self, options: SessionOptions) -> None:
        self.options = options
        self.config = options.config
        self.env = options.env
        with settings.using(self.env.variables):
            self._set_up(options)

    def _set_up(self, options: SessionOptions) -> None:
        config = options.config
        self.devices = self._make_devices(config)
        self.number = next(_NUMBERS)
        self.handle = config.session_handle if config is not None else ""
        if config is not None:
            rewriter_config.check_names(config.graph_options.rewrite_options)
            session_config.check_device_filters(config)
        self._pipeline: Pipeline | None = None
        if options.passes is not None:
            from tfjit.passes.manager.pipeline_spec import Pipeline

            self._pipeline = Pipeline.of(options.passes)
        self._place_pruned = config is not None and config.graph_options.place_pruned_graph
        self.state = self._make_state(options)
        if len(self.devices.devices) > 1:
            # no method: the state would hold the session that holds it
            self.state.make_variable = partial(_variable_on, self.devices)
        self._custom_kernels = (
            CustomKernels(options.custom_kernel_creator)
            if options.custom_kernel_creator is not None
            else None
        )
        self.jit = session_config.jit_mode(config)
        self._bundles = session_config.bundles()
        self._splits = session_config.splits_rows()
        self._compares = session_config.compares()
        self.logs_rendezvous = settings.logs("rendezvous")
        self.node_kernels = RequestedKernels(store)
        self.renewals = Renewals(self.node_kernels, self.settings)
        self.bodies = SharedBodies()
        self._compiles = session_config.jit_mode(self.config) != "off"
        self.graph: DataflowGraph | None = None
        self.closed = False
        self.cancellation = CancellationManager()
        self.recycler = self._make_recycler()
        self.arenas = ArenaPool()
        # here: plans are compiled in the background, where no caller would get the error
        check_level()
        self.budget = VariantBudget(settings.integer("TFJIT_PLAN_MEMORY") << 20)
        self.threads = session_config.intra_op_threads(config)
        self.straight_line = session_config.straight_line()
        self.stages = session_config.stages()
        self._pools = inter_op.PoolSet(config)
        self.graph_lock = threading.RLock()
        self.plan_cache = PlanCache()
        # thread -> number of its running steps, nested where a kernel runs Python
        self._running: dict[RunningStep, int] = {}  # threads of running steps
        self._idle = threading.Condition()
        self._callables = Callables()
        self._collectives: CollectiveManager | None = None
        self.resolved_collectives: dict[NodeKey, Resolved] = {}  # of nodes that keep their group
        self._partial_runs: dict[str, Any] = {}
        self._pass_options: PassOptions | None = None
        fork_safety.hold(self.graph_lock, fork_safety.PLACED_GRAPH)
        fork_safety.watch(self)
        self.observer: StepObserver | None = None
        if config is not None:
            from tfjit.runtime.profiling.step_observer import StepObserver

            self.observer = StepObserver.for_session(self)

    def _make_devices(self, config: Any) -> DeviceManager:
        return DeviceManager(config)

    def _make_state(self, options: SessionOptions) -> SessionState:
        config = options.config
        isolated = config is not None and config.isolate_session_state
        resource = None if isolated else options.session_resource
        return SessionState(
            resource, options.env, config.global_io_parallelism_threads if config is not None else 0
        )

    def _make_recycler(self) -> OutputRecycler:
        return OutputRecycler()

    def _free_state(self) -> None:
        self.state.close()

    # life

    def create(self, graph_def: Any) -> None:
        if self.graph is not None:
            raise errors.AlreadyExistsError(
                None, None, "A Graph has already been created for this session."
            )
        self.extend(graph_def)

    def extend(self, graph_def: Any) -> None:
        from tfjit.passes.ir.dataflow_graph import DataflowGraph
        from tfjit.passes.manager.pass_context import PassContext
        from tfjit.passes.partitioning.place import place

        self.check_open()
        with collection_paused(), self.graph_lock:
            graph = self.graph if self.graph is not None else DataflowGraph()
            graph.extend(graph_def, self.internal_names)
            if not self._place_pruned:
                with self.settings():
                    place(graph, PassContext(options=self.pass_options()))
            self.graph = graph

    def extend_from(self, graph: Any, version: int) -> None:
        from tfjit.passes.ir.dataflow_graph import DataflowGraph
        from tfjit.passes.ir.graph_def import add_and_change
        from tfjit.passes.manager.pass_context import PassContext
        from tfjit.passes.partitioning.place import place

        self.check_open()
        with collection_paused(), self.graph_lock:
            mine = self.graph if self.graph is not None else DataflowGraph()
            if mine._twin is not None:
                super().extend_from(graph, version)
                return
            # checked when they were made, so neither a message nor a second check is needed
            mine.versions = graph.version_numbers
            mine.functions.merge(graph.functions.values(), graph.function_gradients)
            add_and_change(
                mine, graph.operations_after(version), graph.operations_changed_after(version)
            )
            if not self._place_pruned:
                with self.settings():
                    place(mine, PassContext(options=self.pass_options()))
            self.graph = mine

    def close(self) -> None:
        self.cancellation.cancel()
        self.closed = True
        self.renewals.close()
        _OPEN.forget(self)  # so that `reset` ignores it

    def destroy(self) -> None:
        """Free plans, resources and own threads.

        Waits for the running steps of other threads, which `close` has cancelled. Reference counts
        alone free everything at once: no object is left to a garbage collection.
        """
        for run in list(self._partial_runs.values()):  # steps that no caller will continue
            run.end()
        with self._idle:
            # closing from inside a step, by a Python function that it calls
            me = threading.get_ident()
            if not self._idle.wait_for(lambda: not {*self._running.values()} - {me}, _PATIENCE_S):
                log.warning("a closed session's step did not end within %d s", _PATIENCE_S)
        self._callables.clear()
        self._partial_runs.clear()
        if self._collectives is not None:
            self._free_collectives(self._collectives)
            self._collectives = None
        self.resolved_collectives.clear()
        released = [variant for plan in self.plan_cache.take_all() for variant in plan.drop_all()]
        if not self._running:
            for variant in released:
                variant.release()
        self._free_state()
        self.options = replace(self.options, session_resource=None, custom_kernel_creator=None)
        self.recycler.clear()
        self.arenas.clear()
        self._pools.close()
        with self.graph_lock:
            graph, self.graph = self.graph, None
        if graph is not None and not self._running:
            graph.dissolve()

    def reset(self, containers: Sequence[str]) -> None:
        """Close, and clear containers of every device.

        Without names, the default container is cleared.
        """
        # first: a step that waits for a queue is cancelled, not told that its queue has closed
        self.close()
        for manager in self.state.managers():
            manager.clear(tuple(containers))

    def after_fork(self) -> None:
        """Reset the session in a forked child.

        The steps of other threads are gone, the rest continues.
        """
        self._idle = threading.Condition()
        self._running.clear()
        self._partial_runs.clear()
        self._collectives = None  # its threads are gone
        self.resolved_collectives.clear()
        parts: list[fork_safety.Forked] = [
            self.cancellation,
            self.state,
            self.node_kernels,
            self.renewals,
            self.bodies,
            self.recycler,
            self.arenas,
            self.budget,
            self.plan_cache,
        ]
        parts += [part for part in (self._custom_kernels, self.observer) if part is not None]
        for part in parts:
            part.after_fork()

    def check_open(self) -> None:
        """Raise CancelledError once the session is closed."""
        if self.closed:
            raise errors.CancelledError(None, None, "Session has been closed.")

    def list_devices(self) -> list[Any]:
        self.check_open()
        return self.devices.attributes()

    # the requests of plans to the session

    def settings(self) -> AbstractContextManager[None]:
        """Return a block with this session's TFJIT_* settings.

        All code that makes plans and kernels runs inside one.
        """
        return settings.using(self.env.variables)

    def pass_options(self) -> PassOptions:
        """Return the options of this session's passes.

        They follow from its ConfigProto and the environment.
        """
        if self._pass_options is None:
            query = has_kernel(self.devices.backends, _passes_on)
            self._pass_options = session_config.make_pass_options(
                self.config, self.devices, query, self._custom_kernels, self._pipeline
            )
        return self._pass_options

    def change_pass_options(self, change: Callable[[PassOptions], PassOptions]) -> None:
        """Change options of this session's passes, before its first plan.

        For tools that experiment with passes.
        """
        self._pass_options = change(self.pass_options())

    def build_partitions(
        self,
        spec: RunSpec,
        quick: bool = False,
        fuses: bool = True,
        history: History | None = None,
    ) -> tuple[list[Partition], PipelineReport]:
        """Run the passes for one signature and feed shapes.

        quick: only passes that make the graph runnable. fuses: run the passes over partitions too.
        history: filled with the passes and their rewrites.
        """
        from tfjit.passes.partitioning.place import raise_unplaced
        from tfjit.passes.pipeline import build

        options = self.pass_options()
        if quick:
            options = replace(options, section="quick")
        if quick or not fuses:
            options = replace(options, over_partitions=False)
        if history is not None:
            options = replace(options, history=history)
        with self.graph_lock:
            graph = self.graph
            if graph is None:
                self.check_open()  # closing takes the graph away
                raise errors.InvalidArgumentError(
                    None, None, "Session was not created with a graph before Run()!"
                )
            self.place_for(spec)
            if session_config.strict_placement():
                raise_unplaced(graph, graph)
            if spec.connections:
                from tfjit.passes.legalize.tensor_connections import connect

                graph = connect(graph, spec)
        try:
            return build(graph, spec, options, self.graph_lock)
        finally:
            if spec.connections:
                graph.dissolve(functions=False)  # the plan's

    def place_for(self, spec: RunSpec) -> None:
        """Place the unplaced nodes of a run, with place_pruned_graph.

        The placement is for all later runs. Call it with the graph lock held.
        """
        from tfjit.passes.ir.subgraph import extract
        from tfjit.passes.manager.pass_context import PassContext
        from tfjit.passes.partitioning.place import place, raise_unplaced

        graph = self.graph
        if not self._place_pruned or graph is None:
            return
        part = extract(graph, spec)
        with self.settings():
            place(part, PassContext(options=self.pass_options()))
        raise_unplaced(part, part)
        for node in part.op_nodes():
            graph.node(node.name).assigned_device = node.assigned_device

    def forget_plans(self) -> None:
        """Drop all plans, since nodes have moved.

        Later runs are planned anew. Running steps finish on the plans they have.
        """
        for plan in self.plan_cache.take_all():
            plan.drop_all()

    def survey(self, spec: RunSpec) -> Survey:
        from tfjit.passes.ir.subgraph import needed_nodes

        with self.graph_lock:
            if self.graph is None:
                return Survey(0)
            names = needed_nodes(self.graph, spec)[0]
            key = ""
            if not spec.connections and not spec.ends and len(names) <= plan_warm_start.MAX_NODES:
                key = plan_warm_start.fingerprint(self.graph, spec, names)
            return Survey(len(names), key, not spec.fetches and self._initialises(names))

    def _initialises(self, names: Iterable[str]) -> bool:
        """Return whether one of these nodes is a variable without a value."""
        assert self.graph is not None
        try:
            return any(
                node.has_trait(VARIABLE) and self.find_variable(node).value_shape is None
                for node in map(self.graph.node, names)
            )
        except errors.OpError:  # the run reports it, with the node's name
            return False

    def find_variable(self, node: Node) -> Variable:
        """Return the Variable of a variable node."""
        return variable_ops.find_variable(
            self.state, node.assigned_device or self.devices.default.name, node
        )

    @property
    def split_threads(self) -> int:
        """Threads that the rows of a loop are divided between."""
        return min(self.threads, available_cpus()) if self._splits else 1

    def step_environment(self, device: str) -> StepEnvironment:
        """Return the environment of static steps on `device`."""
        threads = self.threads
        inter_op_threads = min(self.pool().num_threads, thread_counts.inter_op_threads(self.config))
        spinning = self.config is None or not self.config.experimental.disable_thread_spinning

        def pool() -> IntraOpPool | None:
            count = threads if threads > 1 else inter_op_threads if self._bundles else 1
            return get_pool(count, spinning) if count > 1 else None

        found = self.devices.lookup(device)
        ways = self._bundles, inter_op_threads, self._compiles, self._compares
        return StepEnvironment(
            found, self.state, pool, threads, self.recycler, self.arenas, store.lookup, *ways
        )

    def dataflow_plan(
        self, partitions: Sequence[Partition], compiled: Set[str] | None = None
    ) -> DataflowPlan:
        """Prepare the partitions for the dataflow executor.

        compiled: the nodes that may use compiled code, at once; None for all, as shapes recur.
        """
        from tfjit.runtime.executor.dataflow_executor import DataflowPlan
        from tfjit.runtime.executor.runner import RunnerEnvironment

        code = self.node_kernels if self.jit != "off" else None
        return DataflowPlan(
            partitions,
            self.devices,
            RunnerEnvironment(
                self.state, self.step_environment, code, self.settings, compiled=compiled
            ),
        )

    def pool(self, index: int = 0) -> inter_op.ThreadPool:
        """Return the inter-op pool of RunOptions.inter_op_thread_pool."""
        return self._pools.get(index)

    def step_context(self) -> RunningStep:
        """Return a block with a step's identity, rendezvous and cancellation."""
        return RunningStep(self)

    @property
    def collectives(self) -> CollectiveManager:
        """The collectives of the session's devices, made at the first use."""
        with self._idle:
            if self._collectives is None:
                self._collectives = self._make_collectives()
            return self._collectives

    def _make_collectives(self) -> CollectiveManager:
        from tfjit.runtime.collectives.collective_manager import CollectiveManager

        return CollectiveManager(self.devices, TASK_PREFIX)

    def _free_collectives(self, made: CollectiveManager) -> None:
        made.close(errors.CancelledError(None, None, "Session has been closed."))

    def begin_step(self, step: RunningStep) -> None:
        """Count a run of this thread. Raises RuntimeError for a closed session."""
        with self._idle:
            self.check_open()  # under the lock: `destroy` waits for all runs that began before
            self._running[step] = threading.get_ident()

    def end_step(self, step: RunningStep, number: int | None = None) -> None:
        """Count a run as over, if it was counted.

        number: of a step that is over with it.
        """
        if self._collectives is not None and number is not None:
            self._collectives.clean_up(number)
        with self._idle:
            # a child that forked within the step has no entry
            self._running.pop(step, None)
            self._idle.notify_all()

    # runs

    def plan(
        self,
        feeds: Sequence[str],
        fetches: Sequence[str],
        targets: Sequence[str],
        connections: tuple[tuple[str, str], ...] = (),
        ends: DeviceEnds = ON_HOST,
    ) -> Plan:
        """Return the plan of a signature, with its names in any order.

        connections: of a callable. ends: feeds and fetches in the memory of accelerators.
        """
        names = tuple(sorted(feeds)), tuple(sorted(fetches)), tuple(sorted(targets))
        key = (*names, connections, ends)
        return self.plan_cache.find(key, lambda: self._new_plan(*names, connections, ends))

    def _new_plan(
        self,
        feeds: tuple[str, ...],
        fetches: tuple[str, ...],
        targets: tuple[str, ...],
        connections: tuple[tuple[str, str], ...],
        ends: DeviceEnds,
    ) -> Plan:
        session_config.check_executor(self.config)
        fetches, targets = tuple(dict.fromkeys(fetches)), tuple(dict.fromkeys(targets))
        dtypes = self._feed_dtypes(feeds, fetches, targets)
        if self.straight_line and self.stages and not connections and not ends:
            with self.graph_lock:
                if self.graph is not None and any(map(starts_stage, self.graph.op_types)):
                    from tfjit.runtime.plan.pipelined_plan import staged_plan

                    staged = staged_plan(self, feeds, fetches, targets, dtypes)
                    if staged is not None:
                        return staged
        return Plan(self, feeds, fetches, targets, dtypes, connections, ends)

    def _feed_dtypes(
        self, feeds: tuple[str, ...], fetches: tuple[str, ...], targets: tuple[str, ...]
    ) -> list[DType]:
        """Return the base dtypes of the fed tensors.

        Raises TensorFlow's errors for names that the graph does not have.
        """
        from tfjit.passes.ir.run_spec import RunSpec, check_spec, parse_tensor_name

        with self.graph_lock:
            if self.graph is None:
                self.check_open()  # closing takes the graph away
                raise errors.InvalidArgumentError(
                    None, None, "Session was not created with a graph before Run()!"
                )
            check_spec(self.graph, RunSpec(feeds, fetches, targets))
            parsed = [parse_tensor_name(name) for name in feeds]
            return [
                self.graph.node(node).output_dtypes[output].base_dtype for node, output in parsed
            ]

    def plan_counters(self) -> PlanCounters:
        """Return the counts of plans found, made and dropped."""
        plans = self.plan_cache.plans()
        return PlanCounters(
            len(plans),
            sum(len(plan.held()) for plan in plans),
            self.plan_cache.hits,
            self.plan_cache.misses,
            self.plan_cache.evictions,
            self.budget.evicted,
        )

    @property
    def label(self) -> str:
        """Return the session's handle, or its number in this process."""
        return self.handle or f"session {self.number}"

    def variants(self) -> list[Variant]:
        """Return the variants of all plans, without those of bodies."""
        return [variant for plan in self.plan_cache.plans() for variant in plan.held()]

    def wait_until_compiled(self, timeout: float | None = None) -> bool:
        end = None if timeout is None else time.monotonic() + timeout

        def left() -> float | None:
            return None if end is None else max(0.0, end - time.monotonic())

        while True:
            self.check_open()
            waiting = upgrades.unfinished(self)
            if not (waiting or self.node_kernels.unfinished() or self.renewals.unfinished()):
                return True
            if not all(variant.compile_done.wait(left()) for variant in waiting):
                return False
            if not self.node_kernels.wait(left()) or not self.renewals.wait(left()):
                return False

    def prepare(
        self,
        feeds: Sequence[str],
        fetches: Sequence[str],
        targets: Sequence[str],
        pool_index: int = 0,
        connections: tuple[tuple[str, str], ...] = (),
        ends: DeviceEnds = ON_HOST,
    ) -> Runner:
        self.check_open()
        if len(set(feeds)) != len(feeds):
            twice = next(name for name in feeds if list(feeds).count(name) > 1)
            raise errors.InvalidArgumentError(None, None, f'Endpoint "{twice}" fed more than once.')
        self.pool(pool_index)
        if self.observer is not None or (
            self.config is not None and self.config.operation_timeout_in_ms > 0
        ):
            if connections or pool_index or ends:
                from tfjit.protos import RunOptions

                options = RunOptions(inter_op_thread_pool=pool_index)
                return self.runner_with_options(
                    feeds, fetches, targets, options, connections, ends=ends
                )
            # every step has its own deadline, or is counted
            return super().prepare(feeds, fetches, targets)
        plan = self.plan(feeds, fetches, targets, connections, ends)
        return plan_runner(self, plan, feeds, fetches, pool_index)

    def runner_with_options(
        self,
        feeds: Sequence[str],
        fetches: Sequence[str],
        targets: Sequence[str],
        options: Any,
        connections: tuple[tuple[str, str], ...],
        metadata: Any = None,
        ends: DeviceEnds = ON_HOST,
    ) -> Runner:
        """Return a runner that applies the options to every step."""
        from tfjit.runtime.session.run_options import run_with_options

        timeout_ms = self._timeout_ms(options)
        return lambda values: run_with_options(
            self, feeds, values, fetches, targets, options, metadata, timeout_ms, connections, ends
        )

    def _timeout_ms(self, options: Any) -> int:
        timeout_ms = (options.timeout_in_ms if options is not None else 0) or (
            self.config.operation_timeout_in_ms if self.config is not None else 0
        )
        return int(timeout_ms)

    def run(
        self,
        feeds: Sequence[tuple[str, Any]],
        fetches: Sequence[str],
        targets: Sequence[str],
        options: Any = None,
        metadata: Any = None,
    ) -> list[Any]:
        names = tuple(name for name, _ in feeds)
        values = [value for _, value in feeds]
        timeout_ms = self._timeout_ms(options)
        if options is None and metadata is None and timeout_ms <= 0 and self.observer is None:
            key = (names, tuple(fetches), tuple(targets))
            runner = self.plan_cache.runner(key)
            if runner is None:
                runner = self.prepare(names, fetches, targets)
                self.plan_cache.keep_runner(key, runner)
            return runner(values)
        from tfjit.runtime.session.run_options import run_with_options

        return run_with_options(
            self, names, values, fetches, targets, options, metadata, timeout_ms
        )

    def session_tensor(self, handle: str) -> tuple[DType, Any]:
        found = self.state.tensors.get(handle)
        return found.dtype, found.value

    def receive(self, value: object, dtype: DType, name: str) -> object:
        from tfjit.runtime.resources.device_arrays import receive

        return receive(value, self.devices.accelerators(), dtype, name)

    def delete_session_tensors(self, handles: Sequence[str]) -> None:
        self.state.tensors.discard(handles)

    def make_callable(self, options: Any) -> int:
        self.check_open()
        return self._callables.make(self, options)

    def run_callable(self, handle: int, values: Sequence[Any], metadata: Any = None) -> list[Any]:
        self.check_open()
        return self._callables.run(self, handle, values, metadata)

    def release_callable(self, handle: int) -> None:
        self._callables.release(handle)

    def partial_run_setup(
        self, feeds: Sequence[str], fetches: Sequence[str], targets: Sequence[str]
    ) -> str:
        from tfjit.runtime.session.partial_run import PartialRun

        self.check_open()
        run = PartialRun(self, feeds, fetches, targets)
        self._partial_runs[run.handle] = run
        return run.handle

    def partial_run(
        self, handle: str, feeds: Sequence[tuple[str, Any]], fetches: Sequence[str]
    ) -> list[Any]:
        self.check_open()
        run = self._partial_runs.get(handle)
        if run is None:
            raise errors.InvalidArgumentError(
                None, None, "Must run 'setup' before performing partial runs!"
            )
        run.names.check([name for name, _ in feeds], fetches)
        done = True
        try:
            results, done = run.step(feeds, fetches)
        finally:
            if done:
                self._partial_runs.pop(handle, None)
        return results

    def explain(
        self,
        feeds: Sequence[tuple[str, Any]],
        fetches: Sequence[str],
        targets: Sequence[str],
        measure: bool = False,
        values: Mapping[str, Any] | None = None,
    ) -> Any:
        from tfjit.runtime.profiling.explain import explain_nothing, explain_plan

        fed = {name for name, _ in feeds}
        # a run returns fed values unchanged
        fetches = [name for name in fetches if name not in fed]
        if not fetches and not targets:
            return explain_nothing(measure)
        plan = self.plan([name for name, _ in feeds], fetches, targets)
        shapes: dict[str, Shape] = dict(feeds)
        if plan.stages is not None:
            stage = plan.stages.largest
            for name, shape in zip(stage.feeds, stage.shapes, strict=True):
                shapes.setdefault(name, tuple(size or 1 for size in shape or ()))
            plan = stage
        if plan.fed_sizes is not None and plan.fed_sizes.plans:
            plan = list(plan.fed_sizes.plans.values())[-1]
        return explain_plan(plan, tuple(shapes[name] for name in plan.feeds), measure, values or {})

    def lower(
        self, feeds: Sequence[tuple[str, Any]], fetches: Sequence[str], targets: Sequence[str]
    ) -> PlanStages:
        from tfjit.runtime.profiling.stages import PlanStages

        self.check_open()
        names = [name for name, _ in feeds]
        plan = self.plan(names, fetches, targets)
        return PlanStages(plan, names, [shape for _, shape in feeds], fetches)


def _variable_on(
    devices: DeviceManager,
    device: str,
    container: str,
    name: str,
    dtype: DType,
    shape: Shape,
    is_resource: bool,
) -> Variable:
    """Return a new variable; that of an accelerator migrates."""
    accelerator = devices.accelerator(device)
    if accelerator is None or not dtype.is_numpy_compatible:
        return Variable(container, name, dtype, shape, is_resource)
    from tfjit.runtime.resources.migrating_variable import MigratingVariable

    return MigratingVariable(accelerator, container, name, dtype, shape, is_resource, device)


def _passes_on(op: str) -> bool:
    """Return whether the executor itself serves an op, on any device."""
    from tfjit.runtime.executor.node_runner import has_own_runner

    return has_own_runner(op)


class DirectSessionFactory(SessionFactory):
    """Serves target ''."""

    def accepts_options(self, options: SessionOptions) -> bool:
        return options.target == ""

    def make_session(self, options: SessionOptions) -> DirectSession:
        names = session_names(options.config)
        _OPEN.check(names)
        session = DirectSession(options)
        _OPEN.add(session, names)
        return session

    def reset(self, options: SessionOptions, containers: Sequence[str]) -> None:
        for session in _OPEN.take_all():
            session.reset(containers)

    @classmethod
    def find(cls, handle: str) -> DirectSession:
        """Return the open session that its client named `handle`.

        Raises NotFoundError when there is none.
        """
        return _OPEN.find(handle)


SessionFactory.register("DIRECT_SESSION", DirectSessionFactory())
