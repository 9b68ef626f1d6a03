"""The blocks that a graph is built in, each a thread's own.

They set names, devices, colocation, control dependencies and attrs.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.op_defs import attrs as attr_values
from tfjit.framework.types.device_spec import canonical_name, merge_names

OP_NAME: Final = re.compile(r"^[A-Za-z0-9.][A-Za-z0-9_.\\/>-]*$")
SCOPE_NAME: Final = re.compile(r"^[A-Za-z0-9_.\\/>-]*$")


class Scopes(threading.local):
    """One thread's scopes of one graph."""

    def __init__(self) -> None:
        self.name_stack = ""
        # canonical string, None (a reset) or a function, outermost first
        self.devices: list[Any] = []
        # the merged strings; None while a function has to be asked
        self.device_cache: str | None = ""
        self.colocation: list[Operation] = []
        self.control: list[Controller] = []
        self.control_flow_context: Any = None
        # functions that make the variables, the outermost block's first
        self.variable_creators: tuple[Callable[..., object], ...] = ()


class Controller:
    """One `control_dependencies` block: its operations and those made inside.

    Those made inside already run after them.
    """

    __slots__ = ("inputs", "seen")

    def __init__(self, inputs: list[Operation]) -> None:
        self.inputs = inputs
        self.seen: set[Operation] = set()


class GraphScopes:
    """The part of a Graph that blocks change.

    Settings of a block belong to the thread, except for attrs and container.
    """

    _lock: threading.RLock
    _scopes: Scopes
    _names_in_use: dict[str, int]
    _gradient_override: dict[str, str]
    _attr_scope: dict[str, Any]
    _kernel_labels: dict[str, str]
    _container: str

    def as_graph_element(
        self, obj: Any, allow_tensor: bool = True, allow_operation: bool = True
    ) -> Any:
        """Return the Tensor or Operation that `obj` is or names."""
        raise NotImplementedError

    def unique_name(self, name: str, mark_as_used: bool = True) -> str:
        """Return a name in the current scope that no other has.

        Operations and scopes are compared without regard to case.
        """
        with self._lock:
            stack = self._scopes.name_stack
            if stack:
                name = f"{stack}/{name}"
            key = name.lower()
            used = self._names_in_use
            i = used.get(key, 0)
            if mark_as_used:
                used[key] = i + 1
            if not i:
                return name
            candidate = key
            while candidate in used:
                candidate = f"{key}_{i}"
                i += 1
            if mark_as_used:
                used[candidate] = 1
            return f"{name}_{i - 1}"

    def get_name_scope(self) -> str:
        """Return the current scope without a trailing slash; "" at the root."""
        return self._scopes.name_stack

    @property
    def _name_stack(self) -> str:
        return self._scopes.name_stack

    @contextmanager
    def name_scope(self, name: str | None) -> Iterator[str]:
        """Prefix names made inside with `name`, made unique.

        "s/" re-enters a scope, None or "" is the root. Yields the prefix with its slash. Raises
        ValueError for an invalid name, TypeError for a name that is no string.
        """
        scopes = self._scopes
        old = scopes.name_stack
        if not name:
            new = ""
        else:
            if not isinstance(name, str):
                raise TypeError(
                    "expected string or bytes-like object, got " + repr(type(name).__name__)
                )
            if old:
                if not SCOPE_NAME.fullmatch(name):
                    raise ValueError(
                        f"'{name}' is not a valid scope name. A scope name has to match the "
                        f"following pattern: {SCOPE_NAME.pattern}"
                    )
            elif not OP_NAME.fullmatch(name):
                raise ValueError(
                    f"'{name}' is not a valid root scope name. A root scope name has to match the "
                    f"following pattern: {OP_NAME.pattern}"
                )
            new = name[:-1] if name[-1] == "/" else self.unique_name(name)
        scopes.name_stack = new
        try:
            yield f"{new}/" if new else ""
        finally:
            scopes.name_stack = old

    @contextmanager
    def device(self, device_name_or_function: Any) -> Iterator[None]:
        """Ask for a device inside.

        device_name_or_function: a string or DeviceSpec whose fields merge under the fields of inner
        blocks, None for no device, or a function of the operation.
        """
        entry = device_name_or_function
        if entry is not None and not callable(entry):
            entry = canonical_name(entry)
            # the runtime reads '*' as no wish, and TensorFlow's front end refuses it
            if "replica:*" in entry or "task:*" in entry:
                raise ValueError(
                    f"'*' is no number in the device spec: '{device_name_or_function}'."
                )
        scopes = self._scopes
        saved = scopes.devices, scopes.device_cache
        scopes.devices = [*scopes.devices, entry]
        scopes.device_cache = _merged_device(scopes.devices)
        try:
            yield
        finally:
            scopes.devices, scopes.device_cache = saved

    @contextmanager
    def colocate_with(self, op: Any, ignore_existing: bool = False) -> Iterator[None]:
        """Place operations made inside on the device of `op`.

        `op` is an operation or tensor. Device blocks around don't count.
        """
        if op is None and not ignore_existing:
            raise ValueError(
                "Trying to reset colocation (op is None) but ignore_existing is not True"
            )
        other = None if op is None else _operation_of(op, self)
        scopes = self._scopes
        saved = scopes.devices, scopes.device_cache, scopes.colocation
        scopes.devices, scopes.device_cache = [], ""
        scopes.colocation = ([] if ignore_existing else list(scopes.colocation)) + (
            [other] if other is not None else []
        )
        try:
            yield
        finally:
            scopes.devices, scopes.device_cache, scopes.colocation = saved

    @contextmanager
    def container(self, container_name: str) -> Iterator[str]:
        """Set the resource container of stateful operations made inside."""
        old = self._container
        self._container = container_name
        try:
            yield container_name
        finally:
            self._container = old

    @contextmanager
    def control_dependencies(self, control_inputs: Any) -> Iterator[None]:
        """Run operations made inside after `control_inputs`.

        control_inputs: operations or tensors; None forgets the blocks around. Raises TypeError for
        a member that is neither.
        """
        scopes = self._scopes
        saved = scopes.control, scopes.control_flow_context
        if control_inputs is None:
            scopes.control, scopes.control_flow_context = [], None
        else:
            ops: dict[Operation, None] = {}
            for item in control_inputs:
                ops[_operation_of(item, self)] = None
            scopes.control = [*scopes.control, Controller(list(ops))]
        try:
            yield
        finally:
            scopes.control, scopes.control_flow_context = saved

    def _get_control_flow_context(self) -> Any:
        return self._scopes.control_flow_context

    def _set_control_flow_context(self, context: Any) -> None:
        self._scopes.control_flow_context = context

    @contextmanager
    def gradient_override_map(self, op_type_map: Mapping[str, str]) -> Iterator[None]:
        """Give operations of these types another op's gradient: {"Relu": "GuidedRelu"}."""
        if not isinstance(op_type_map, Mapping):
            raise TypeError(
                f"op_type_map must be a dictionary mapping strings to strings, got {op_type_map!r}"
            )
        for key, value in op_type_map.items():
            if not isinstance(key, str) or not isinstance(value, str):
                raise TypeError(
                    "op_type_map must be a dictionary mapping strings to strings, got "
                    f"{op_type_map!r}"
                )
        saved = self._gradient_override
        self._gradient_override = {**saved, **op_type_map}
        try:
            yield
        finally:
            self._gradient_override = saved

    @contextmanager
    def _attr_scope_block(self, attr_map: Mapping[str, Any]) -> Iterator[None]:
        saved = self._attr_scope
        merged = {
            **saved,
            **{
                k: attr_values.guess(v) if v is not None and not callable(v) else v
                for k, v in attr_map.items()
            },
        }
        self._attr_scope = {k: v for k, v in merged.items() if v is not None}
        try:
            yield
        finally:
            self._attr_scope = saved

    @contextmanager
    def _kernel_label_map(self, op_to_kernel_label_map: Mapping[str, str]) -> Iterator[None]:
        saved = self._kernel_labels
        self._kernel_labels = {**saved, **op_to_kernel_label_map}
        try:
            yield
        finally:
            self._kernel_labels = saved

    def _control_inputs_for(
        self, scopes: Scopes, inputs: tuple[Tensor, ...]
    ) -> tuple[Operation, ...]:
        input_ops = {t.op for t in inputs}
        found: dict[Operation, None] = {}
        for controller in scopes.control:
            # An input made inside the block already waits for the block's operations.
            if controller.seen.isdisjoint(input_ops):
                for op in controller.inputs:
                    if op not in input_ops:
                        found[op] = None
        return tuple(found)

    def _apply_device(self, op: Operation, scopes: Scopes) -> None:
        if scopes.device_cache is not None:
            op._device = scopes.device_cache
            return
        for entry in reversed(scopes.devices):
            if entry is None:
                break
            if isinstance(entry, str):
                op._device = merge_names(op._device, entry)
            else:
                chosen = entry(op)
                if chosen is None:
                    # as TensorFlow answers a device function
                    raise TypeError("Expected binary or unicode string, got None")
                # A function's own text is kept, as TensorFlow keeps it; unreadable text is refused
                # here.
                canonical = canonical_name(chosen)
                op._device = chosen if isinstance(chosen, str) else canonical


def _merged_device(devices: list[Any]) -> str | None:
    merged = ""
    for entry in reversed(devices):
        if entry is None:
            break
        if not isinstance(entry, str):
            return None
        merged = merge_names(merged, entry) if merged else entry
    return merged


def _operation_of(item: Any, graph: GraphScopes) -> Operation:
    # a resource variable means its handle, or the update that gave it
    if hasattr(item, "handle") and hasattr(item, "op"):
        item = item.op
    # an IndexedSlices object
    if (
        hasattr(item, "values")
        and hasattr(item, "indices")
        and not isinstance(item, (Tensor, Operation))
    ):
        item = item.values
    element = graph.as_graph_element(item)
    return element.op if isinstance(element, Tensor) else element
