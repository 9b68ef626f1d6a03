"""The session on local devices.

It plans and runs steps over its placed graph, with its resources.
"""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from tfjit.framework import errors, settings
from tfjit.framework.op_defs.op_traits import VARIABLE
from tfjit.framework.types.device_ends import ON_HOST, DeviceEnds
from tfjit.framework.types.dtypes import DType
from tfjit.framework.types.shape import Shape
from tfjit.kernels.jit.store import store
from tfjit.kernels.jit.target import check_level
from tfjit.runtime.executor.requested_kernels import RequestedKernels
from tfjit.runtime.factory import SessionOptions
from tfjit.runtime.host import fork_safety
from tfjit.runtime.host import inter_op_pool as inter_op
from tfjit.runtime.host.cancellation import CancellationManager
from tfjit.runtime.host.device import DeviceManager
from tfjit.runtime.kernel_api.custom_kernels import CustomKernels
from tfjit.runtime.kernel_api.op_kernel import starts_stage
from tfjit.runtime.op_kernels.state import variable_ops
from tfjit.runtime.plan import upgrades
from tfjit.runtime.plan.fast_path import plan_runner
from tfjit.runtime.plan.host import Survey
from tfjit.runtime.plan.plan import Plan, Variant
from tfjit.runtime.plan.plan_cache_budget import VariantBudget
from tfjit.runtime.plan.renewals import Renewals
from tfjit.runtime.plan.shared_bodies import SharedBodies
from tfjit.runtime.resources.placed_variables import variable_on
from tfjit.runtime.resources.variables_and_resources import SessionState, Variable
from tfjit.runtime.session import rewriter_config, session_config
from tfjit.runtime.session.callables import Callables
from tfjit.runtime.session.open_sessions import OPEN
from tfjit.runtime.session.partial_runs import PartialRuns
from tfjit.runtime.session.placed_graph import PlacedGraph
from tfjit.runtime.session.plan_cache import PlanCache
from tfjit.runtime.session.running_step import RunningStep
from tfjit.runtime.session.running_steps import RunningSteps
from tfjit.runtime.session.session_collectives import SessionCollectives
from tfjit.runtime.session.session_passes import SessionPasses
from tfjit.runtime.session.step_environments import StepEnvironments
from tfjit.runtime.session_interface import PlanCounters, Runner, SessionInterface
from tfjit.runtime.step.arena import ArenaPool
from tfjit.runtime.step.memory_planner import OutputRecycler
from tfjit.runtime.step.step import StepEnvironment
from tfjit.runtime.stored_plans import plan_warm_start

if TYPE_CHECKING:
    from tfjit.passes.history.history import History
    from tfjit.passes.ir.dataflow_graph import DataflowGraph, Node
    from tfjit.passes.pipeline import Partition, PassOptions, Pipeline, PipelineReport, RunSpec
    from tfjit.runtime.executor.dataflow_executor import DataflowPlan
    from tfjit.runtime.profiling.stages import PlanStages
    from tfjit.runtime.profiling.step_observer import StepObserver

log = logging.getLogger("tfjit.session")

_PATIENCE_S = 60
_NUMBERS = itertools.count(1)  # of the process's sessions


class DirectSession(SessionInterface):
    """A session that runs on the devices of this process.

    placed: the whole placed graph, extended as it grows. state: variables, queues and streams,
    shared by all plans. steps: those that are running. Thread-safe: concurrent runs share plans;
    `extend` waits for plan building only.
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
        pipeline: Pipeline | None = None
        if options.passes is not None:
            from tfjit.passes.manager.pipeline_spec import Pipeline

            pipeline = Pipeline.of(options.passes)
        custom_kernels = (
            CustomKernels(options.custom_kernel_creator)
            if options.custom_kernel_creator is not None
            else None
        )
        self._passes = SessionPasses(
            config, self.devices, self.env.variables, custom_kernels, pipeline
        )
        pruned_first = config is not None and config.graph_options.place_pruned_graph
        self.placed = PlacedGraph(self._passes, pruned_first, self.internal_names)
        self.state = self._make_state(options)
        if len(self.devices.devices) > 1:
            # no method: the state would hold the session that holds it
            self.state.make_variable = partial(variable_on, self.devices)
        self.jit = session_config.jit_mode(config)
        self.logs_rendezvous = settings.logs("rendezvous")
        self.node_kernels = RequestedKernels(store)
        self.renewals = Renewals(self.node_kernels, self.settings)
        self.bodies = SharedBodies()
        self.closed = False
        self.cancellation = CancellationManager()
        # here: plans are compiled in the background, where no caller would get the error
        check_level()
        self.budget = VariantBudget(settings.integer("TFJIT_PLAN_MEMORY") << 20)
        self.straight_line = session_config.straight_line()
        self.stages = session_config.stages()
        self._pools = inter_op.PoolSet(config)
        self.environments = StepEnvironments(
            config, self.devices, self.state, self._pools, self._make_recycler()
        )
        self.plan_cache = PlanCache()
        self.steps = RunningSteps()
        self._callables = Callables()
        self.collectives = self._make_collectives()
        self._partial_runs = PartialRuns()
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

    def _make_collectives(self) -> SessionCollectives:
        return SessionCollectives(self.devices)

    def _free_state(self) -> None:
        self.state.close()

    @property
    def graph(self) -> DataflowGraph | None:
        """The whole placed graph, or None.

        There is none before the first extension and after `destroy`.
        """
        return self.placed.graph

    @property
    def graph_lock(self) -> threading.RLock:
        """The lock to hold while reading or changing the graph."""
        return self.placed.lock

    # life

    def create(self, graph_def: Any) -> None:
        if self.graph is not None:
            raise errors.AlreadyExistsError(
                None, None, "A Graph has already been created for this session."
            )
        self.extend(graph_def)

    def extend(self, graph_def: Any) -> None:
        self.check_open()
        self.placed.extend(graph_def)

    def extend_from(self, graph: Any, version: int) -> None:
        self.check_open()
        if not self.placed.extend_from(graph, version):
            super().extend_from(graph, version)

    def close(self) -> None:
        self.cancellation.cancel()
        self.closed = True
        self.placed.close()
        self.renewals.close()
        OPEN.forget(self)  # so that `reset` ignores it

    def destroy(self) -> None:
        """Free plans, resources and own threads.

        Waits for the running steps of other threads, which `close` has cancelled. Reference counts
        alone free everything at once: no object is left to a garbage collection.
        """
        self._partial_runs.end_all()
        if not self.steps.wait_for_others(_PATIENCE_S):
            log.warning("a closed session's step did not end within %d s", _PATIENCE_S)
        self._callables.clear()
        self._partial_runs.clear()
        self.collectives.close()
        released = [variant for plan in self.plan_cache.take_all() for variant in plan.drop_all()]
        if not self.steps.running:
            for variant in released:
                variant.release()
        self._free_state()
        self.options = replace(self.options, session_resource=None, custom_kernel_creator=None)
        self.environments.clear()
        self._pools.close()
        graph = self.placed.take()
        if graph is not None and not self.steps.running:
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
        self._partial_runs.clear()
        parts: list[fork_safety.Forked] = [
            self.steps,
            self.collectives,
            self.cancellation,
            self.state,
            self.node_kernels,
            self.renewals,
            self.bodies,
            self.environments,
            self.budget,
            self.plan_cache,
        ]
        parts += [part for part in (self._passes.custom_kernels, self.observer) if part is not None]
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
        return self._passes.options()

    def change_pass_options(self, change: Callable[[PassOptions], PassOptions]) -> None:
        """Change options of this session's passes, before its first plan.

        For tools that experiment with passes.
        """
        self._passes.change(change)

    def build_partitions(
        self,
        spec: RunSpec,
        quick: bool = False,
        fuses: bool = True,
        history: History | None = None,
    ) -> tuple[list[Partition], PipelineReport]:
        """Run the passes, as `PlacedGraph.build_partitions` does."""
        return self.placed.build_partitions(spec, quick, fuses, history)

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
        return self.environments.split_threads

    @property
    def arenas(self) -> ArenaPool:
        """The arenas of all steps."""
        return self.environments.arenas

    def step_environment(self, device: str) -> StepEnvironment:
        """Return the environment of static steps on `device`."""
        return self.environments.of(device)

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
        dtypes = self.placed.feed_dtypes(feeds, fetches, targets)
        if self.straight_line and self.stages and not connections and not ends:
            with self.graph_lock:
                if self.graph is not None and any(map(starts_stage, self.graph.op_types)):
                    from tfjit.runtime.plan.pipelined_plan import staged_plan

                    staged = staged_plan(self, feeds, fetches, targets, dtypes)
                    if staged is not None:
                        return staged
        return Plan(self, feeds, fetches, targets, dtypes, connections, ends)

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
        return upgrades.wait_until_compiled(self, timeout)

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
        self.check_open()
        return self._partial_runs.start(self, feeds, fetches, targets)

    def partial_run(
        self, handle: str, feeds: Sequence[tuple[str, Any]], fetches: Sequence[str]
    ) -> list[Any]:
        self.check_open()
        return self._partial_runs.step(handle, feeds, fetches)

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
