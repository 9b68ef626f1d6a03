"""State that outlives a step: variables, other resources, random streams.

They belong to the session and device, never to a plan.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from tfjit.framework import errors
from tfjit.framework.env import DEFAULT_ENV, Env
from tfjit.runtime.host.fork_safety import Forked, release_lock
from tfjit.runtime.resources.tensor_store import TensorStore

if TYPE_CHECKING:
    from tfjit.framework.types.dtypes import DType
    from tfjit.framework.types.shape import Shape
    from tfjit.runtime.host.io_pool import IoPool

DEFAULT_CONTAINER = "localhost"
VARIABLE_EPOCH = [0]
"""A number that changes with each variable's array of this process.

It changes whenever a variable gets or loses its array: steps look at variables again then.
"""
_changes = itertools.count(1)


class Variable:
    """Memory with a name.

    The object stays for the session's life, so plans may hold it; `value` is None until the first
    assignment.

    value: C-contiguous ndarray owned and written by the variable alone, or None. dtype, shape: as
    declared; shape is in internal form and may be partly unknown. is_resource: made by VarHandleOp
    rather than VariableV2. lock: taken by updates that must be atomic (use_locking, AssignAdd on
    resources).
    """

    __slots__ = (
        "__weakref__",
        "container",
        "dtype",
        "is_resource",
        "lock",
        "name",
        "shape",
        "value",
    )

    def __init__(
        self, container: str, name: str, dtype: DType, shape: Shape, is_resource: bool = False
    ) -> None:
        self.container = container
        self.name = name
        self.dtype = dtype
        self.shape = shape
        self.is_resource = is_resource
        self.value: np.ndarray | None = None
        self.lock = threading.Lock()

    def assign(self, value: np.ndarray, *, take: bool = False) -> np.ndarray:
        """Store `value` and return the variable's own array.

        The value is copied unless `take`: the caller gives the array away.
        """
        current = self.value
        if (
            not take
            and current is not None
            and current.shape == value.shape
            and current.dtype == value.dtype
        ):
            np.copyto(current, value)
            return current
        fresh = (
            value
            if take and value.flags.c_contiguous and value.flags.owndata and value.flags.writeable
            else np.array(value, order="C")
        )
        self.value = fresh
        self._replaced(fresh)
        return fresh

    @property
    def value_shape(self) -> tuple[int, ...] | None:
        """Return the shape of the value, None where there is none."""
        return None if self.value is None else self.value.shape

    def _replaced(self, array: np.ndarray | None) -> None:
        """Note that the variable has another array."""
        VARIABLE_EPOCH[0] = next(_changes)

    def clear(self) -> None:
        """Forget the value: the variable is uninitialised again."""
        self.value = None
        self._replaced(None)

    def initialized_value(self) -> np.ndarray:
        """Return the value. Raises FailedPreconditionError when there is none."""
        if self.value is None:
            raise errors.FailedPreconditionError(None, None, self.uninitialized_message())
        return self.value

    def uninitialized_message(self) -> str:
        """Return TensorFlow's words for a read before the first assignment."""
        if self.is_resource:
            return (
                f"Could not find variable {self.name}. This could mean that the variable has been "
                "deleted. In TF1, it can also mean "
                f"the variable is uninitialized. Debug info: container={self.container}, status "
                "error message=Resource "
                f"{self.container}/{self.name}/N10tensorflow3VarE does not exist."
            )
        return f"Attempting to use uninitialized value {self.name}"

    def __repr__(self) -> str:
        return (
            f"<Variable {self.name} {self.dtype.name} "
            f"{'uninitialised' if self.value_shape is None else self.value_shape}>"
        )


# device, container, name, dtype, shape, is_resource -> a new variable
MakeVariable = Callable[..., Variable]


def _host_variable(
    device: str, container: str, name: str, dtype: DType, shape: Shape, is_resource: bool
) -> Variable:
    return Variable(container, name, dtype, shape, is_resource)


class ResourceManager:
    """Resources of one device by (container, type, name)."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._resources: dict[tuple[str, str, str], Any] = {}

    def lookup_or_create(
        self, container: str, type_name: str, name: str, create: Callable[[], Any]
    ) -> Any:
        """Return the resource, made by `create` if it is not there."""
        key = (container or DEFAULT_CONTAINER, type_name, name)
        with self._lock:
            found = self._resources.get(key)
            if found is None:
                found = self._resources[key] = create()
            return found

    def find(self, container: str, type_name: str, name: str) -> Any:
        """Return the resource, or None."""
        return self._resources.get((container or DEFAULT_CONTAINER, type_name, name))

    def lookup(self, container: str, type_name: str, name: str) -> Any:
        """Return the resource. Raises NotFoundError when there is none of that name."""
        found = self.find(container, type_name, name)
        if found is None:
            raise errors.NotFoundError(
                None,
                None,
                f"Resource {container or DEFAULT_CONTAINER}/{name}/{type_name} does not exist.",
            )
        return found

    def remove(self, container: str, type_name: str, name: str) -> bool:
        """Drop the resource; False if there was none.

        A variable is cleared instead, since plans hold it.
        """
        key = (container or DEFAULT_CONTAINER, type_name, name)
        with self._lock:
            found = self._resources.get(key)
            if found is None:
                return False
            if isinstance(found, Variable):
                had_value = found.value_shape is not None
                found.clear()
                return had_value
            del self._resources[key]
        _close(found)
        return True

    def clear(self, containers: tuple[str, ...] = ()) -> None:
        """Drop the resources of these containers; none named means the default container."""
        names = {c or DEFAULT_CONTAINER for c in containers} or {DEFAULT_CONTAINER}
        with self._lock:
            doomed = [key for key in self._resources if key[0] in names]
            dropped = [self._resources.pop(key) for key in doomed]
        for resource in dropped:
            _close(resource)

    def clear_all(self) -> None:
        """Drop everything (the session ends)."""
        with self._lock:
            dropped = list(self._resources.values())
            self._resources.clear()
        for resource in dropped:
            _close(resource)

    def after_fork(self) -> None:
        """Put things in order in a forked child."""
        release_lock(self._lock)
        for resource in self:
            if isinstance(resource, Variable):
                release_lock(resource.lock)
            elif isinstance(resource, Forked):
                resource.after_fork()

    def __iter__(self) -> Iterator[Any]:
        with self._lock:
            return iter(list(self._resources.values()))


def _close(resource: Any) -> None:
    if isinstance(resource, Variable):
        resource.clear()
    elif hasattr(resource, "close"):
        resource.close()


class SessionResource:
    """Resource managers that several sessions share.

    Give one object to each of them as `SessionOptions.session_resource`. Their variables, queues
    and tables of one device, container and name are the same, so that (say) several sessions of one
    model serve requests with one set of weights, or one session trains a model that others
    evaluate. Sessions keep it alive: it lives, values and all, until the last of them is closed and
    no other reference is left. Random streams stay each session's own. Kernels find it as
    `ctx.session.resource`; a subclass may hold further objects that sessions should share.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.managers: dict[str, ResourceManager] = {}


class SessionState:
    """Everything of a session that its steps share.

    These are a resource manager a device, the persistent state of its nodes, and its surroundings.
    resource: other sessions' resource managers to share; None for new ones. io_threads: of the pool
    for work on files, 0 for the default.
    """

    def __init__(
        self, resource: SessionResource | None = None, env: Env = DEFAULT_ENV, io_threads: int = 0
    ) -> None:
        self.resource = resource
        self.env = env
        self._io_threads = io_threads
        self._lock = threading.Lock() if resource is None else resource.lock
        self._managers: dict[str, ResourceManager] = {} if resource is None else resource.managers
        self._node_states: dict[str, np.ndarray] = {}
        self._node_objects: dict[str, Any] = {}
        self.tensors = TensorStore()  # kept by session handles
        # a session with accelerators has another function
        self.make_variable: MakeVariable = _host_variable

    def manager(self, device: str) -> ResourceManager:
        """Return the resource manager of a device (full name)."""
        found = self._managers.get(device)
        if found is None:
            with self._lock:
                found = self._managers.setdefault(device, ResourceManager())
        return found

    def managers(self) -> list[ResourceManager]:
        """Return all resource managers."""
        with self._lock:
            return list(self._managers.values())

    def variable(
        self, device: str, container: str, name: str, dtype: DType, shape: Shape, is_resource: bool
    ) -> Variable:
        """Return the named variable on a device, made if missing.

        A new variable is uninitialised. Reference and resource variables are different resource
        types, so they may share a name. Raises InvalidArgumentError for a variable of another
        dtype.
        """
        found: Variable = self.manager(device).lookup_or_create(
            container,
            "Variable" if is_resource else "LegacyVariable",
            name,
            lambda: self.make_variable(
                device, container or DEFAULT_CONTAINER, name, dtype, shape, is_resource
            ),
        )
        if found.dtype != dtype:
            raise errors.InvalidArgumentError(
                None,
                None,
                f"Variable {name} of container {found.container} has dtype {found.dtype.name}, and "
                f"is wanted as {dtype.name}",
            )
        return found

    @property
    def io(self) -> IoPool:
        """The pool for expensive work on files."""
        from tfjit.runtime.host.io_pool import io_pool

        return io_pool(self._io_threads)

    def node_state(self, name: str, make: Callable[[], np.ndarray]) -> np.ndarray:
        """Return a node's persistent bytes (a random stream), made once a session."""
        found = self._node_states.get(name)
        if found is None:
            with self._lock:
                found = self._node_states.get(name)
                if found is None:
                    found = self._node_states[name] = make()
        return found

    def node_states(self) -> list[tuple[str, np.ndarray]]:
        """Return the persistent bytes of all nodes that have some, by name."""
        with self._lock:
            return list(self._node_states.items())

    def node_object(self, name: str, make: Callable[[], Any]) -> Any:
        """Return a persistent object of a node, made once a session.

        Examples are a temporary variable and a counter.
        """
        found = self._node_objects.get(name)
        if found is None:
            with self._lock:
                found = self._node_objects.get(name)
                if found is None:
                    found = self._node_objects[name] = make()
        return found

    def after_fork(self) -> None:
        """Put things in order in a forked child."""
        release_lock(self._lock)
        for manager in self.managers():
            manager.after_fork()

    def close(self) -> None:
        """Free states, and resources unless other sessions may use them."""
        if self.resource is None:
            for manager in self.managers():
                manager.clear_all()
        with self._lock:
            if self.resource is None:
                self._managers.clear()
            else:
                self._managers, self.resource = {}, None
            self._node_states.clear()
            self._node_objects.clear()
        self.tensors.clear()
