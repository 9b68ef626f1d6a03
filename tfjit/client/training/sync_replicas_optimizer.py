"""SyncReplicasOptimizer: one update from the gradients of several workers."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from tfjit import ops
from tfjit.client.data.accumulators import ConditionalAccumulator, SparseConditionalAccumulator
from tfjit.client.data.queues import FIFOQueue
from tfjit.client.training.optimizer import Optimizer
from tfjit.client.training.queue_runner import QueueRunner
from tfjit.client.training.readiness import missing_values
from tfjit.client.training.session_run_hook import SessionRunHook
from tfjit.client.variables.assignments import assign
from tfjit.client.variables.variable_collections import (
    global_variables,
    report_uninitialized_variables,
)
from tfjit.client.variables.variables import Variable
from tfjit.framework.graphs.default_graph import (
    colocate_with,
    control_dependencies,
    device,
    name_scope,
)
from tfjit.framework.graphs.graph_keys import GraphKeys
from tfjit.framework.graphs.indexed_slices import IndexedSlices
from tfjit.framework.graphs.operation import Operation, Tensor

if TYPE_CHECKING:
    from tfjit.client.training.coordinator import Coordinator
    from tfjit.framework.graphs.typing import GradientLike, SessionLike

_LOGGER = logging.getLogger("tensorflow")


class SyncReplicasOptimizer(Optimizer):
    """Averages the gradients of workers before an optimizer applies them.

    A worker adds its gradients to accumulators beside the variables, then waits for a token. A
    queue runner of the chief takes the means once each accumulator has replicas_to_aggregate
    gradients, applies them with `opt`, and puts tokens with the new global step into a queue.
    Gradients of an earlier step are dropped, so workers beyond replicas_to_aggregate are backups.
    total_num_replicas: the number of workers. variable_averages, variables_to_average: an object
    whose `apply` is called after each update, and its argument. All workers need the hook that
    `make_session_run_hook` returns.
    """

    def __init__(
        self,
        opt: Optimizer,
        replicas_to_aggregate: int,
        total_num_replicas: int | None = None,
        variable_averages: Any = None,
        variables_to_average: Any = None,
        use_locking: bool = False,
        name: str = "sync_replicas",
    ) -> None:
        super().__init__(use_locking, name)
        self._opt = opt
        self._replicas_to_aggregate = replicas_to_aggregate
        self._total_num_replicas = (
            replicas_to_aggregate if total_num_replicas is None else total_num_replicas
        )
        self._variable_averages = variable_averages
        self._variables_to_average = variables_to_average
        self._chief_queue_runner: QueueRunner | None = None
        _LOGGER.info(
            "SyncReplicasV2: replicas_to_aggregate=%s; total_num_replicas=%s",
            self._replicas_to_aggregate,
            self._total_num_replicas,
        )

    def compute_gradients(self, *args: Any, **kwargs: Any) -> Any:
        """Return the gradients that the wrapped optimizer computes."""
        return self._opt.compute_gradients(*args, **kwargs)

    def apply_gradients(
        self,
        grads_and_vars: Iterable[tuple[GradientLike, Variable]],
        global_step: Any = None,
        name: str | None = None,
    ) -> Any:
        """Return an operation that adds the gradients and waits for the update.

        global_step: required; tells which gradients are late. Raises ValueError without pairs or
        global step, and for a gradient that is no tensor.
        """
        pairs = list(grads_and_vars or ())
        if not pairs:
            raise ValueError("Must supply at least one variable")
        if global_step is None:
            raise ValueError("Global step is required to check staleness")
        self._global_step = global_step
        # Beside the computation, not on a parameter server: each worker has its own.
        with colocate_with(ops.no_op()):
            self._local_step = Variable(
                initial_value=0,
                trainable=False,
                collections=[GraphKeys.LOCAL_VARIABLES],
                dtype=global_step.dtype.base_dtype,
                name="sync_rep_local_step",
            )
        self.local_step_init_op = assign(self._local_step, global_step)
        self.ready_for_local_init_op = report_uninitialized_variables(global_variables())
        step_inits: list[Any] = [self.local_step_init_op]
        with name_scope(None, self._name):
            added: list[Operation] = []
            means: list[tuple[Any, Variable]] = []
            accumulators: list[tuple[Any, str]] = []
            for gradient, variable in pairs:
                if gradient is None:
                    means.append((None, variable))
                    continue
                with device(variable.device or None):
                    accumulator, operation, mean = self._accumulated(gradient, variable)
                added.append(operation)
                means.append((mean, variable))
                accumulators.append((accumulator, variable.device))
            with device(global_step.device or None), name_scope(""):
                update = self._opt.apply_gradients(means, global_step)
                train = self._token_nodes(added, update)
            for accumulator, place in accumulators:
                with device(place or None):
                    step_inits.append(accumulator.set_global_step(global_step, "SetGlobalStep"))
            self.chief_init_op = ops.group(*step_inits)
        return train

    def _accumulated(self, gradient: Any, variable: Variable) -> tuple[Any, Operation, Any]:
        """Return the accumulator of a variable, the adding operation, the mean."""
        shared_name = f"{variable.name}/grad_accum"
        accumulator: Any
        if isinstance(gradient, Tensor):
            accumulator = ConditionalAccumulator(
                gradient.dtype, shape=variable.get_shape(), shared_name=shared_name
            )
            added = accumulator.apply_grad(gradient, local_step=self._local_step)
            return accumulator, added, accumulator.take_grad(self._replicas_to_aggregate)
        if isinstance(gradient, IndexedSlices):
            accumulator = SparseConditionalAccumulator(
                gradient.dtype, shape=(), shared_name=shared_name
            )
            added = accumulator.apply_indexed_slices_grad(gradient, local_step=self._local_step)
            mean = accumulator.take_indexed_slices_grad(self._replicas_to_aggregate)
            return accumulator, added, mean
        raise ValueError("Unknown grad type!")

    def _token_nodes(self, added: list[Operation], update: Operation) -> Tensor:
        """Make the queue of tokens, its runner, and the worker's wait."""
        self._token_queue = FIFOQueue(
            -1,
            self._global_step.dtype.base_dtype,
            shapes=(),
            name="sync_token_q",
            shared_name="sync_token_q",
        )
        with control_dependencies(added):
            token = self._token_queue.dequeue()
        train: Tensor = assign(self._local_step, token)
        with control_dependencies([update]):
            count = max(self._total_num_replicas, self._replicas_to_aggregate)
            finished = self._token_queue.enqueue_many((self._tokens(count),))
        if self._variable_averages is not None:
            with control_dependencies([finished]), name_scope(""):
                finished = self._variable_averages.apply(self._variables_to_average)
        self._chief_queue_runner = QueueRunner(self._token_queue, [finished])
        return train

    def _tokens(self, count: int) -> Tensor:
        step = self._global_step
        return ops.fill([count], step.read_value() if isinstance(step, Variable) else step)

    def get_chief_queue_runner(self) -> QueueRunner:
        """Return the runner that the chief starts: it applies the means.

        Raises ValueError before `apply_gradients`.
        """
        if self._chief_queue_runner is None:
            raise ValueError("Should be called after apply_gradients().")
        return self._chief_queue_runner

    def get_init_tokens_op(self, num_tokens: int = -1) -> Any:
        """Return an operation that puts the first tokens into the queue.

        num_tokens: replicas_to_aggregate if -1. Raises ValueError before `apply_gradients`, and for
        fewer tokens than the first step needs.
        """
        if self._chief_queue_runner is None:
            raise ValueError("get_init_tokens_op() should be called after apply_gradients().")
        needed = self._replicas_to_aggregate - self._total_num_replicas
        if num_tokens == -1:
            num_tokens = self._replicas_to_aggregate
        elif num_tokens < needed:
            raise ValueError(
                f"Too few tokens to finish the first step: {num_tokens} (given) vs {needed} "
                "(needed)"
            )
        if num_tokens <= 0:
            return ops.no_op(name="no_init_tokens")
        with ExitStack() as stack:
            stack.enter_context(device(self._global_step.device or None))
            stack.enter_context(name_scope(""))
            return self._token_queue.enqueue_many((self._tokens(num_tokens),))

    def get_slot(self, *args: Any, **kwargs: Any) -> Any:
        """Return a slot of the wrapped optimizer."""
        return self._opt.get_slot(*args, **kwargs)

    def get_slot_names(self, *args: Any, **kwargs: Any) -> list[str]:
        """Return the names of the slots of the wrapped optimizer."""
        return self._opt.get_slot_names(*args, **kwargs)

    def variables(self) -> list[Variable]:
        """Return the variables of the wrapped optimizer."""
        return self._opt.variables()

    def make_session_run_hook(self, is_chief: bool, num_tokens: int = -1) -> SessionRunHook:
        """Return the hook that a worker's monitored session needs.

        It sets the local step; the chief's also starts the queue runner and gives the first tokens.
        """
        return _SyncReplicasHook(self, is_chief, num_tokens)


class _SyncReplicasHook(SessionRunHook):
    """Prepares each new session for synchronous steps."""

    def __init__(self, optimizer: SyncReplicasOptimizer, is_chief: bool, num_tokens: int) -> None:
        self._optimizer = optimizer
        self._is_chief = is_chief
        self._num_tokens = num_tokens

    def begin(self) -> None:
        """Make the operations that sessions run."""
        optimizer = self._optimizer
        if optimizer._chief_queue_runner is None:
            raise ValueError(
                "SyncReplicasOptimizer.apply_gradient should be called before using the hook."
            )
        self._runner: QueueRunner | None = None
        self._init_op: Any = optimizer.local_step_init_op
        self._first_tokens: Any = None
        if self._is_chief:
            self._runner = optimizer._chief_queue_runner
            self._init_op = optimizer.chief_init_op
            self._first_tokens = optimizer.get_init_tokens_op(self._num_tokens)

    def after_create_session(self, session: SessionLike, coord: Coordinator) -> None:
        """Set the steps; as the chief, give tokens and start the runner."""
        missing = missing_values(
            self._optimizer.ready_for_local_init_op,
            session,
            "Model is not ready for SyncReplicasOptimizer local init.",
        )
        if missing is not None:
            raise RuntimeError(
                "Init operations did not make model ready for SyncReplicasOptimizer local_init. "
                f"Init op: {self._init_op.name}, error: {missing}"
            )
        session.run(self._init_op)
        if self._first_tokens is not None:
            session.run(self._first_tokens)
        if self._runner is not None:
            self._runner.create_threads(session, coord=coord, daemon=True, start=True)
