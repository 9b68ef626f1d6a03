"""Run bodies of functions as plans.

A body is compiled once for each tuple of argument shapes, and for the variables among its
arguments.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tfjit.runtime.host.cancellation import CancellationManager, cancelled_step
from tfjit.runtime.host.rendezvous import LocalRendezvous
from tfjit.runtime.kernel_api.op_kernel import StepContext
from tfjit.runtime.lowering.lowered import Lowered
from tfjit.runtime.lowering.lowering import lower
from tfjit.runtime.plan.host import Survey
from tfjit.runtime.plan.met_shapes import allows_generic
from tfjit.runtime.plan.plan import Plan
from tfjit.runtime.plan.variant import Variant
from tfjit.runtime.resources.tensor_lists import TensorList
from tfjit.runtime.resources.variables_and_resources import Variable
from tfjit.runtime.step.step import Reroute
from tfjit.runtime.stored_plans import stored_plan
from tfjit.runtime.stored_plans.plan_key import PlanKey, body_key

if TYPE_CHECKING:
    from tfjit.framework.types.shape import Shape
    from tfjit.passes.analysis.argument_info import ArgumentInfo
    from tfjit.passes.ir.dataflow_graph import DataflowGraph
    from tfjit.passes.ir.function_library import Function
    from tfjit.passes.pipeline import Partition, PipelineReport
    from tfjit.runtime.plan.host import PlanHost

log = logging.getLogger("tfjit.plan")

_RESTORES: Final = 4
"""Iterations that look for a stored variant: the first sizes may be too small for it."""

# Type of one argument in the key of a body's variant: a shape, maybe partly known; the variable
# itself; a ListShape; None for other objects.
ArgumentType = Any


def edge_value(value: Any) -> Any:
    """Return a value in the form that bodies take.

    Arrays and scalars become C-contiguous arrays; other objects stay as they are.
    """
    if isinstance(value, np.ndarray):
        return np.asarray(value, order="C")
    if isinstance(value, bytes):  # a string scalar, which asarray would cut at trailing zeros
        return np.array(value, object)
    return np.asarray(value) if isinstance(value, np.generic) else value


def types_of(values: Sequence[Any]) -> tuple[ArgumentType, ...]:
    """Return the argument types that select a body's variant."""
    return tuple([v.shape if isinstance(v, np.ndarray) else _type_of(v) for v in values])


def _type_of(value: Any) -> ArgumentType:
    if isinstance(value, Variable):
        return value
    if isinstance(value, TensorList):
        from tfjit.passes.analysis.list_shapes import EMPTY, ListShape

        holds, has_gaps = value.uniform_shape()
        return ListShape(value.element_shape, EMPTY if holds == "" else holds, None, has_gaps)
    return None


def given(types: Sequence[ArgumentType]) -> list[ArgumentInfo]:
    """Return the argument types in the form of shape inference."""
    from tfjit.passes.analysis.argument_info import ArgumentInfo
    from tfjit.passes.analysis.list_shapes import ListShape

    return [
        ArgumentInfo((), t.shape)
        if isinstance(t, Variable)
        else ArgumentInfo((), items=t)
        if isinstance(t, ListShape)
        else ArgumentInfo(t)
        for t in types
    ]


def widened(
    types: Sequence[ArgumentType], found: Sequence[ArgumentInfo]
) -> tuple[ArgumentType, ...]:
    """Return the types of a loop's variables in each iteration.

    types: those that enter the loop. found: the result of shape inference.
    """
    return tuple(
        [
            g.shape
            if isinstance(t, tuple)
            else t
            if t is None or isinstance(t, Variable)
            else g.items
            for t, g in zip(types, found, strict=True)
        ]
    )


class BodyVariant(Variant):
    """Serve a body for arguments of known types.

    The variant is dropped with the plan that calls the body, so the session's budget does not count
    it.
    """

    def _builders_pay(self, lowered: Lowered) -> bool:
        """Return True: the first run of a body is one of many."""
        return True

    def charge(self) -> None:
        """Count nothing: the calling plan's variant owns this one."""

    def call(self, values: Sequence[Any], context: StepContext) -> list[Any]:
        """Return the body's results for arguments in the form of `edge_value`.

        A step returns its results in that form too.
        """
        step = self.step
        if step is not None and context.collector is None:
            try:
                return step.run(values, context)
            except Reroute as why:
                log.debug("plan %s: %s", self.plan.name, why)
            finally:
                self.count_slow_run()
        return self.call_dynamic(values, context)

    def count_slow_run(self) -> None:
        """Count a run; start the upgrade if none has begun.

        The count tells the background thread that a caller is waiting.
        """
        self._slow_runs += 1
        if self._later is not None:
            self.upgrade(defers=True)

    def call_dynamic(self, values: Sequence[Any], context: StepContext) -> list[Any]:
        """Return the body's results by the dataflow executor."""
        session = self.plan.session
        dataflow = self._dataflow()
        # A failure ends this body first; the caller reports the error.
        cancellation = CancellationManager(context.cancellation)
        if cancellation.cancelled:
            raise cancelled_step()
        rendezvous = (
            context.rendezvous
            if len(self.partitions) == 1
            else LocalRendezvous(session.logs_rendezvous)
        )
        own = replace(
            context,
            cancellation=cancellation,
            rendezvous=rendezvous,
            return_values=[],
            as_arrays=True,
        )
        try:
            return [edge_value(value) for value in dataflow.run(values, own, session.pool())]
        finally:
            cancellation.release()


class BodyPlan(Plan):
    """Hold one body's variants in one plan, by argument types."""

    variant_class = BodyVariant
    has_shifted_sizes = True  # a history grows with the text
    specializes = False
    may_be_stored = False
    max_variants = 256  # a loop over changing shapes needs one variant per iteration

    def __init__(self, session: PlanHost, function: Function, digest: str = "") -> None:
        """Make the plan of a body.

        digest: of all that decides it, "" if there is none.
        """
        self._digest = digest
        self._restores = _RESTORES if digest else 0
        # number of requests for types that have no variant
        self._seen: dict[tuple[ArgumentType, ...], int] = {}
        self._prepared: set[tuple[ArgumentType, ...]] = set()
        feeds = tuple(f"{function.name}:{i}" for i in range(len(function.inputs)))
        super().__init__(
            session,
            feeds,
            tuple(f"{function.name}={i}" for i in range(len(function.outputs))),
            (),
            function.inputs,
        )
        self.function = function
        self.name = function.name[:80]

    def survey(self, feed_shapes: Sequence[Shape]) -> Survey:
        return Survey(0)

    def build(
        self, feed_shapes: Sequence[Shape], quick: bool = False, sampled: bool = False
    ) -> tuple[list[Partition], PipelineReport]:
        from tfjit.passes.pipeline import build_body

        return build_body(self.function, given(feed_shapes), self.session.pass_options())

    def lower(self, partition: Partition, feed_shapes: Sequence[ArgumentType]) -> Lowered:
        variables: dict[int, Variable] = {
            i: t for i, t in enumerate(feed_shapes) if isinstance(t, Variable)
        }
        backend = self.session.devices.lookup(partition.device).backend
        return lower(
            partition.graph, self.session.find_variable, len(self.feeds), variables, backend
        )

    def may_be_split(self) -> bool:
        """Return False: a body is no run of the session's graph."""
        return False

    def release(self) -> None:
        """Drop all variants when the calling plan is dropped."""
        for variant in self.drop_all():
            variant.release()
        self.function.graph.dissolve()

    def _count_shapes(self, shapes: tuple[tuple[int, ...], ...]) -> None:
        """Count nothing: `known` counts the types of iterations."""

    def shapes_of_nodes(
        self, samples: Sequence[Sequence[ArgumentType]]
    ) -> tuple[DataflowGraph, list[dict[str, tuple[Shape, ...]]]]:
        from tfjit.passes.pipeline import shaped_body

        options = self.session.pass_options()
        graphs = [shaped_body(self.function, given(types), options) for types in samples]
        shapes = [{node.name: node.output_shapes for node in g.op_nodes()} for g in graphs]
        for graph in graphs[1:]:
            graph.dissolve()
        return graphs[0], shapes

    def key_of_all_sizes(self) -> PlanKey:
        return (
            body_key(self.session, self.function.graph, self._digest)
            if self._digest
            else PlanKey("")
        )

    def _restore_generic(self, shapes: tuple[ArgumentType, ...]) -> bool:
        with self.session.settings():
            is_stored = allows_generic(self.session) and stored_plan.is_stored(
                self.key_of_all_sizes().all_sizes
            )
        self._restores = self._restores - 1 if is_stored else 0
        return is_stored and self.met.take_stored(self, shapes)

    def run_generic(
        self, types: tuple[ArgumentType, ...], values: Sequence[np.ndarray]
    ) -> list[np.ndarray] | None:
        """Return the generic variant's results; None for types without service.

        The first calls take the variant from the disk, if an earlier process has stored it.
        """
        if self._restores and self._restore_generic(types):
            self._restores = 0
        generic = self.generic
        return generic.run(types, values) if generic is not None and generic.ready else None

    def known(self, types: tuple[ArgumentType, ...]) -> BodyVariant | None:
        """Return the variant for these argument types, or None.

        The second request for the same types builds a variant in the background, unless a generic
        variant is to serve these. Requests for other types start that variant.
        """
        found = self.variants.get(types)
        if found is None:
            count = self._seen.get(types, 0) + 1
            if count > 1 or len(self._seen) < 4 * self.max_variants:
                self._seen[types] = count
            self.met.count(self, types)
            is_specialized = not self.met.starts_generic or self.generic_refused
            recurs = count > 1 and types not in self._prepared
            if recurs and is_specialized and len(self.variants) < self.max_variants:
                self._prepared.add(types)
                self.prepare(types)
            return None
        assert isinstance(found, BodyVariant)
        found.used = True
        return found

    def body(self, types: tuple[ArgumentType, ...]) -> BodyVariant:
        """Return the variant for these argument types; build a missing one."""
        found = self.variants.get(types)
        if found is None:
            found = self.variant(types)
        assert isinstance(found, BodyVariant)
        found.used = True
        return found
