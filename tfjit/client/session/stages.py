"""The stages of a run: lowered for feeds of known shapes, then compiled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tfjit.client.session.feeds import FeedSlot, feed_slot, placeholders_behind, resolve_feeds
from tfjit.client.session.fetches import FetchMapper
from tfjit.client.session.run_entries import leaf_values
from tfjit.client.session.tensor_handles import feed_handles, fetch_handles
from tfjit.framework import errors
from tfjit.framework.graphs.tensor_spec import TensorSpec
from tfjit.framework.types.shape import TensorShape

if TYPE_CHECKING:
    from tfjit.client.session.session import BaseSession
    from tfjit.runtime.profiling.stages import CostAnalysis, Dialect, MemoryAnalysis, PlanStages


class Lowered:
    """A run for feeds of known shapes, decided and not yet compiled. `Session.lower` makes it.

    feed_shapes: shape by tensor name. dynamic_reason: why the dataflow executor runs it node by
    node, "" for a run that is one step.
    """

    def __init__(
        self,
        session: BaseSession,
        mapper: FetchMapper,
        slots: Mapping[str, FeedSlot],
        feed_shapes: Mapping[str, tuple[int, ...]],
        stages: PlanStages,
    ) -> None:
        self._session, self._mapper, self._slots, self._stages = session, mapper, slots, stages
        self.feed_shapes = dict(feed_shapes)
        self.dynamic_reason = stages.reason

    def as_text(self, dialect: Dialect = "lowered") -> str:
        """Return the run as text.

        dialect: "graph", the graph behind the passes; "lowered", the instructions in order of
        execution; "step", the function that runs them once all is compiled; "kernels", the
        generated kernels. Raises ValueError for a run without a step, which has only its graph.
        """
        return self._stages.as_text(dialect, compiled=False)

    def cost_analysis(self) -> CostAnalysis:
        """Return predicted flops, bytes, time and memory of each kernel and in total.

        Raises ValueError for a run without a step.
        """
        return self._stages.cost_analysis(compiled=False)

    def compile(self) -> Compiled:
        """Compile the kernels, or load them from the cache on disk, and wait for them.

        The next `Session.run` of this signature and these shapes runs the same code.
        """
        try:
            self._stages.compile()
        except errors.OpError as error:
            self._session._raise(error)
        return Compiled(self._session, self._mapper, self._slots, self.feed_shapes, self._stages)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._stages.plan.name} for {self.feed_shapes}>"


class Compiled(Lowered):
    """A run for feeds of known shapes, compiled: a function of a feed_dict."""

    def __call__(self, feed_dict: Mapping[Any, Any] | None = None) -> Any:
        """Run this plan and return the values of the fetches in their structure.

        feed_dict: values of just the tensors and shapes that were lowered. Raises ValueError for
        others, and what `Session.run` raises.
        """
        session, stages = self._session, self._stages
        session._check_usable()
        arrays: dict[str, Any] = {}
        for slot, get, _ in feed_handles(session, resolve_feeds(session._graph, feed_dict)):
            arrays[slot.name] = slot.convert(get(feed_dict or {}))
        self._check(arrays)
        try:
            results = stages.run([arrays[name] for name in self.feed_shapes])
        except errors.OpError as error:
            session._raise(error)
        mapper = self._mapper
        return mapper.rebuild(leaf_values(mapper.leaves, arrays, results))

    def as_text(self, dialect: Dialect = "lowered") -> str:
        """Return the run as text; the step is the one that runs. dialect: as `Lowered` has it."""
        return self._stages.as_text(dialect, compiled=True)

    def cost_analysis(self) -> CostAnalysis:
        """Return predicted flops, bytes, time and memory of the kernels that run."""
        return self._stages.cost_analysis(compiled=True)

    def memory_analysis(self) -> MemoryAnalysis:
        """Return the memory of a run: arguments, variables, outputs, intermediates, constants.

        Raises ValueError for a run without a step.
        """
        return self._stages.memory_analysis(compiled=True)

    def _check(self, arrays: Mapping[str, Any]) -> None:
        """Raise ValueError unless the fed tensors and their shapes are those that were lowered."""
        wanted = self.feed_shapes
        missing = [name for name in wanted if name not in arrays]
        strange = [name for name in arrays if name not in wanted]
        if missing or strange:
            found = [f"{', '.join(missing)} missing"] if missing else []
            found += [f"{', '.join(strange)} not among them"] if strange else []
            raise ValueError(
                f"This run is compiled for feeds of {', '.join(wanted) or 'nothing'}: "
                f"{'; '.join(found)}. Session.lower makes another."
            )
        for name, array in arrays.items():
            shape = getattr(array, "shape", ())
            if shape != wanted[name]:
                raise ValueError(
                    f"This run is compiled for {name} of shape {wanted[name]}, not {shape}. "
                    "Session.lower makes one for other shapes; Session.run takes all."
                )


def lower(session: BaseSession, fetches: Any, feeds: Mapping[Any, Any] | None) -> Lowered:
    """Lower a session's run; `BaseSession.lower` has the contract."""
    backend = session._backend
    assert backend is not None
    resolved = feed_handles(session, resolve_feeds(session._graph, feeds))
    mapper = FetchMapper(session._graph, fetches)
    fetch_handles(session, mapper)
    session._extend()
    slots: dict[str, FeedSlot] = {}
    shapes: dict[str, tuple[int, ...]] = {}
    for slot, get, _ in resolved:
        slots[slot.name] = slot
        shapes[slot.name] = _shape_of(slot, get(feeds or {}))
    elements = [leaf.element for leaf in mapper.leaves]
    for tensor in placeholders_behind(elements, set(shapes)):
        slot = feed_slot(tensor)
        slots[slot.name] = slot
        shapes[slot.name] = _known_shape(slot, slot.shape)
    tensors = [
        leaf.name for leaf in mapper.leaves if not leaf.is_operation and leaf.name not in shapes
    ]
    targets = [leaf.name for leaf in mapper.leaves if leaf.is_operation]
    if not tensors and not targets:
        raise ValueError("There is nothing to lower: whatever is fetched is fed.")
    try:
        stages = backend.lower(list(shapes.items()), tensors, targets)
    except errors.OpError as error:
        session._raise(error)
    return Lowered(session, mapper, slots, shapes, stages)


def _shape_of(slot: FeedSlot, value: Any) -> tuple[int, ...]:
    """Return the shape of a value, or the shape that a TensorSpec or TensorShape gives."""
    if isinstance(value, TensorShape):
        return _known_shape(slot, value.dims_tuple)
    if isinstance(value, TensorSpec):
        if value.dtype.base_dtype != slot.dtype:
            raise ValueError(
                f"Tensor {slot.name} has dtype {slot.dtype.name}, its TensorSpec {value.dtype.name}"
            )
        return _known_shape(slot, value.shape.dims_tuple)
    return tuple(getattr(slot.convert(value), "shape", ()))


def _known_shape(slot: FeedSlot, shape: Any) -> tuple[int, ...]:
    """Return a shape whose sizes are all known. Raises ValueError, also where it does not fit."""
    if shape is None or any(size is None for size in shape):
        raise ValueError(
            f"The shape of {slot.name} is not known: {TensorShape(shape)}. Lower it for a value, "
            "or for a TensorSpec whose sizes are all known."
        )
    slot.check_shape(found := tuple(int(size) for size in shape))
    return found


__all__ = ["Compiled", "Lowered", "lower"]
