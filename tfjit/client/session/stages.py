"""The stages of a run: lowered for feeds of known shapes, then compiled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tfjit.client.session.feeds import FeedSlot, feed_slot, placeholders_behind, resolve_feeds
from tfjit.client.session.fetches import FetchMapper
from tfjit.client.session.run_entries import leaf_values
from tfjit.client.session.tensor_handles import feed_handles
from tfjit.framework import errors
from tfjit.framework.graphs.tensor_spec import TensorSpec
from tfjit.framework.types.dimension import Dimension
from tfjit.framework.types.shape import TensorShape

if TYPE_CHECKING:
    from tfjit.client.session.base_session import BaseSession
    from tfjit.framework.graphs.typing import FeedDict, Fetches, Structure
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

    def __call__(self, feed_dict: Mapping[Any, Any] | None = None) -> Structure:
        """Run this plan and return the values of the fetches in their structure.

        feed_dict: values of just the tensors and shapes that were lowered. Raises ValueError for
        others, and what `Session.run` raises.
        """
        session, stages = self._session, self._stages
        session._check_usable()
        arrays: dict[str, object] = {}
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

    def _check(self, arrays: Mapping[str, object]) -> None:
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


def lower(session: BaseSession, fetches: Fetches, feeds: Mapping[Any, Any] | None) -> Lowered:
    """Lower a session's run; `BaseSession.lower` has the contract."""
    backend = session._runtime_session
    assert backend is not None
    resolved, mapper = session._feeds_and_fetches(feeds, fetches)
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
    tensors, targets = mapper.tensors(shapes), mapper.targets()
    if not tensors and not targets:
        raise ValueError("There is nothing to lower: whatever is fetched is fed.")
    try:
        stages = backend.lower(list(shapes.items()), tensors, targets)
    except errors.OpError as error:
        session._raise(error)
    return Lowered(session, mapper, slots, shapes, stages)


def explained_feeds(
    session: BaseSession, feeds: FeedDict | None, feed_dict: FeedDict | None
) -> tuple[dict[str, tuple[int, ...]], dict[str, np.ndarray]]:
    """Return the shapes and values of feeds by tensor, for `BaseSession.explain`.

    feeds: shapes or values. feed_dict: values; they win.
    """
    shapes: dict[str, tuple[int, ...]] = {}
    values: dict[str, np.ndarray] = {}
    graph = session._graph
    for key, given in (feeds or {}).items():
        shape = _spelled_shape(given)
        if shape is None:
            values.update(_converted(session, {key: given}))
            continue
        tensor = graph.as_graph_element(key, allow_tensor=True, allow_operation=False)
        if isinstance(given, TensorSpec):
            _check_spec(feed_slot(tensor), given)
        if any(size is not None and size < 0 for size in shape):
            raise ValueError(f"The shape of {tensor.name} has a negative size: {shape}")
        shapes[tensor.name] = tuple(1 if size is None else size for size in shape)
    for slot, get, _ in feed_handles(session, resolve_feeds(graph, feed_dict)):
        values[slot.name] = slot.convert(get(feed_dict or {}))
    shapes.update({name: tuple(getattr(value, "shape", ())) for name, value in values.items()})
    return shapes, values


def _converted(session: BaseSession, feed: FeedDict) -> dict[str, np.ndarray]:
    """Return the arrays of one feed, by tensor.

    Raises TypeError or ValueError with the accepted forms.
    """
    found: dict[str, np.ndarray] = {}
    for slot, get, _ in feed_handles(session, resolve_feeds(session._graph, feed)):
        try:
            found[slot.name] = slot.convert(get(feed))
        except (TypeError, ValueError) as error:
            kind = TypeError if isinstance(error, TypeError) else ValueError
            raise kind(
                f"The feed of {slot.name} must be a shape (a tuple or list of ints and None, a "
                f"TensorShape, a TensorSpec) or a value of this tensor. {error}"
            ) from error
    return found


def _spelled_shape(given: object) -> tuple[int | None, ...] | None:
    """Return the sizes of a shape, or None for a value."""
    if isinstance(given, TensorSpec):
        given = given.shape
    if isinstance(given, TensorShape):
        if given.dims_tuple is None:
            raise ValueError("A feed of unknown rank has no shape to explain; give a value.")
        return tuple(given.dims_tuple)
    if not isinstance(given, tuple | list):
        return None
    sizes = [size.value if isinstance(size, Dimension) else size for size in given]
    if all(size is None or _is_int(size) for size in sizes):
        return tuple(None if size is None else int(size) for size in sizes)
    return None


def _is_int(size: object) -> bool:
    return isinstance(size, int | np.integer) and not isinstance(size, bool)


def _check_spec(slot: FeedSlot, spec: TensorSpec) -> None:
    if spec.dtype.base_dtype != slot.dtype:
        raise ValueError(
            f"Tensor {slot.name} has dtype {slot.dtype.name}, its TensorSpec {spec.dtype.name}"
        )


def _shape_of(slot: FeedSlot, value: object) -> tuple[int, ...]:
    """Return the shape of a value, or the shape that a TensorSpec or TensorShape gives."""
    if isinstance(value, TensorShape):
        return _known_shape(slot, value.dims_tuple)
    if isinstance(value, TensorSpec):
        _check_spec(slot, value)
        return _known_shape(slot, value.shape.dims_tuple)
    try:
        return tuple(getattr(slot.convert(value), "shape", ()))
    except (TypeError, ValueError) as error:
        if _spelled_shape(value) is None:
            raise
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(
            f"{error} A feed of Session.lower is a value; a shape is TensorShape({value})."
        ) from error


def _known_shape(slot: FeedSlot, shape: Any) -> tuple[int, ...]:
    """Return a shape whose sizes are all known. Raises ValueError, also where it does not fit."""
    if shape is None or any(size is None for size in shape):
        raise ValueError(
            f"The shape of {slot.name} is not known: {TensorShape(shape)}. Lower it for a value, "
            "or for a TensorSpec whose sizes are all known."
        )
    slot.check_shape(found := tuple(int(size) for size in shape))
    return found


__all__ = ["Compiled", "Lowered", "explained_feeds", "lower"]
