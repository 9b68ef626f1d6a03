"""Scopes that name variables and give them defaults."""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Final

from tfjit.client.variables.synchronization import VariableAggregation, VariableSynchronization
from tfjit.client.variables.variable_store import stored_partitioned_variable, stored_variable
from tfjit.framework.graphs.default_graph import (
    get_collection,
    get_default_graph,
    get_name_scope,
    graph_of,
    name_scope,
)
from tfjit.framework.graphs.graph_keys import GraphKeys
from tfjit.framework.types import dtypes
from tfjit.framework.types.dtypes import DType, as_dtype
from tfjit.framework.types.shape import as_tensor_shape
from tfjit.ops.core.convert import convert_to_tensor

if TYPE_CHECKING:
    from tfjit.client.variables.partitioned_variable import PartitionedVariable
    from tfjit.framework.graphs.typing import (
        ConstraintLike,
        DeviceLike,
        DTypeLike,
        InitializerLike,
        PartitionerLike,
        RegularizerLike,
        ShapeLike,
        Structure,
        VariableGetter,
    )

# A collection with a name that is no string is not exported with the graph.
_SCOPE: Final = ("__varscope",)


class _ReuseMode(enum.Enum):
    AUTO_REUSE = 1


AUTO_REUSE: Final = _ReuseMode.AUTO_REUSE


class _ScopeStore:
    """A graph's current variable scope, and how often each scope was opened."""

    def __init__(self) -> None:
        self.current = VariableScope(False)
        self.opened: dict[str, int] = {}

    def open(self, name: str) -> None:
        self.opened[name] = self.opened.get(name, 0) + 1

    def close_inside(self, name: str) -> None:
        for key in self.opened:
            if not name or key.startswith(name + "/"):
                self.opened[key] = 0


def _scope_store() -> _ScopeStore:
    held = get_default_graph().get_collection_ref(_SCOPE)
    if not held:
        held.append(_ScopeStore())
    return held[0]


def no_regularizer(_: object) -> None:
    """Do nothing, in place of the scope's own regularizer."""
    return


class VariableScope:
    """Defaults of `get_variable` for its missing arguments.

    Made by `variable_scope`. reuse: True when variables must exist, False when they must not,
    AUTO_REUSE to make those that don't.
    """

    def __init__(
        self,
        reuse: object,
        name: str = "",
        initializer: Any = None,
        regularizer: Any = None,
        caching_device: Any = None,
        partitioner: Any = None,
        custom_getter: Any = None,
        name_scope: str = "",
        dtype: Any = dtypes.float32,
        use_resource: bool | None = None,
        constraint: Any = None,
    ) -> None:
        self._name = name
        self._initializer = initializer
        self._regularizer = regularizer
        self._reuse = reuse
        self._caching_device = caching_device
        self._partitioner = partitioner
        self._custom_getter = custom_getter
        self._name_scope = name_scope
        self._dtype: DType = as_dtype(dtype)
        self._use_resource = use_resource
        self._constraint = constraint

    @property
    def name(self) -> str:
        """Prefix of its variables' names, without a trailing slash."""
        return self._name

    @property
    def original_name_scope(self) -> str:
        """The name scope that it was made with, to enter again."""
        return self._name_scope

    @property
    def reuse(self) -> Any:
        """True, False or AUTO_REUSE."""
        return self._reuse

    @property
    def initializer(self) -> Any:
        """Default initializer."""
        return self._initializer

    @property
    def dtype(self) -> DType:
        """Default dtype."""
        return self._dtype

    @property
    def use_resource(self) -> bool | None:
        """Choice of resource variables; None means the process's default."""
        return self._use_resource

    @property
    def regularizer(self) -> Any:
        """Default regularizer."""
        return self._regularizer

    @property
    def caching_device(self) -> Any:
        """Default caching device."""
        return self._caching_device

    @property
    def partitioner(self) -> Any:
        """Default partitioner."""
        return self._partitioner

    @property
    def custom_getter(self) -> Any:
        """The function that `get_variable` goes through."""
        return self._custom_getter

    @property
    def constraint(self) -> Any:
        """Default constraint."""
        return self._constraint

    def reuse_variables(self) -> None:
        """Require that variables made from here on exist."""
        self._reuse = True

    def set_initializer(self, initializer: InitializerLike) -> None:
        """Set the default initializer."""
        self._initializer = initializer

    def set_dtype(self, dtype: DTypeLike) -> None:
        """Set the default dtype."""
        self._dtype = as_dtype(dtype)

    def set_use_resource(self, use_resource: bool | None) -> None:
        """Set whether to make resource variables."""
        self._use_resource = use_resource

    def set_regularizer(self, regularizer: RegularizerLike) -> None:
        """Set the default regularizer."""
        self._regularizer = regularizer

    def set_caching_device(self, caching_device: DeviceLike) -> None:
        """Set the default caching device."""
        self._caching_device = caching_device

    def set_partitioner(self, partitioner: PartitionerLike | None) -> None:
        """Set the default partitioner."""
        self._partitioner = partitioner

    def set_custom_getter(self, custom_getter: VariableGetter) -> None:
        """Set the function that `get_variable` goes through."""
        self._custom_getter = custom_getter

    def get_collection(self, name: str) -> list[Any]:
        """Return members of a collection in this scope, by their names."""
        return get_collection(name, self._name + "/" if self._name else "")

    def global_variables(self) -> list[Any]:
        """Return this scope's global variables."""
        return self.get_collection(GraphKeys.GLOBAL_VARIABLES)

    def trainable_variables(self) -> list[Any]:
        """Return this scope's trainable variables."""
        return self.get_collection(GraphKeys.TRAINABLE_VARIABLES)

    def local_variables(self) -> list[Any]:
        """Return this scope's local variables."""
        return self.get_collection(GraphKeys.LOCAL_VARIABLES)

    def get_variable(
        self,
        name: str,
        shape: ShapeLike | None = None,
        dtype: DTypeLike | None = None,
        initializer: InitializerLike | None = None,
        regularizer: RegularizerLike | None = None,
        reuse: object = None,
        trainable: bool | None = None,
        collections: Sequence[str] | None = None,
        caching_device: DeviceLike | None = None,
        partitioner: Any = None,
        validate_shape: bool = True,
        use_resource: bool | None = None,
        custom_getter: VariableGetter | None = None,
        constraint: ConstraintLike | None = None,
        synchronization: int = VariableSynchronization.AUTO,
        aggregation: int = VariableAggregation.NONE,
    ) -> Any:
        """Return `get_variable` with this scope's defaults."""
        if regularizer is None:
            regularizer = self._regularizer
        if caching_device is None:
            caching_device = self._caching_device
        if partitioner is None:
            partitioner = self._partitioner
        if custom_getter is None:
            custom_getter = self._custom_getter
        if reuse is None:
            reuse = self._reuse
        if trainable is None:
            trainable = synchronization != VariableSynchronization.ON_READ
        full_name = f"{self._name}/{name}" if self._name else name
        # The variable's name scope is its full name, in every scope.
        with name_scope(None):
            if dtype is not None and initializer is not None and not callable(initializer):
                given = convert_to_tensor(initializer).dtype.base_dtype
                if given is not as_dtype(dtype):
                    raise ValueError(
                        f"Initializer type '{given}' and explicit dtype '{as_dtype(dtype)}' don't "
                        "match."
                    )
            if initializer is None:
                initializer = self._initializer
            if constraint is None:
                constraint = self._constraint
            if dtype is None:
                dtype = self._dtype
            if use_resource is None:
                use_resource = self._use_resource
            getter = (
                stored_variable
                if custom_getter is None
                else functools.partial(custom_getter, stored_variable)
            )
            return getter(
                name=full_name,
                shape=shape,
                dtype=dtype,
                initializer=initializer,
                regularizer=regularizer,
                reuse=reuse,
                trainable=trainable,
                collections=collections,
                caching_device=caching_device,
                partitioner=partitioner,
                validate_shape=validate_shape,
                use_resource=use_resource,
                constraint=constraint,
                synchronization=synchronization,
                aggregation=aggregation,
            )

    def _get_partitioned(
        self,
        partitioner: PartitionerLike,
        shape: ShapeLike,
        dtype: DTypeLike,
        initializer: InitializerLike,
        trainable: bool | None,
        collections: Sequence[str] | None,
    ) -> PartitionedVariable:
        """Return the partitioned variable that has this scope's own name."""
        if self._custom_getter is not None:
            raise ValueError(
                "Private access to _get_partitioned_variable is not allowed when a custom getter "
                f"is set.  Current custom getter: {self._custom_getter}.  It is likely that "
                "you're using create_partitioned_variables.  If so, consider instead using "
                "get_variable with a non-empty partitioner parameter instead."
            )
        with name_scope(None):
            return stored_partitioned_variable(
                self._name,
                partitioner,
                as_tensor_shape(shape),
                as_dtype(dtype),
                self._initializer if initializer is None else initializer,
                reuse=self._reuse,
                regularizer=self._regularizer,
                trainable=trainable,
                collections=collections,
                caching_device=self._caching_device,
                use_resource=self._use_resource,
                constraint=self._constraint,
            )


def get_variable_scope() -> VariableScope:
    """Return the default graph's current variable scope."""
    return _scope_store().current


def _composed(outer: Any, inner: Any) -> Any:
    """Chain a custom getter with the one of the scope around."""
    if outer is None or inner is None:
        return inner or outer

    def getter(true_getter: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return inner(functools.partial(outer, true_getter), *args, **kwargs)

    return getter


@contextmanager
def _entered(store: _ScopeStore, scope: VariableScope) -> Iterator[VariableScope]:
    old = store.current
    store.current = scope
    try:
        yield scope
    finally:
        store.current = old


class variable_scope:
    """Context manager that names variables inside and gives them defaults.

    It opens a name scope as well. name_or_scope: a name below the current scope, a VariableScope to
    enter again, or None for default_name made unique. reuse: True, AUTO_REUSE, or None to inherit.
    auxiliary_name_scope: False opens no name scope. Gives the VariableScope.
    """

    def __init__(
        self,
        name_or_scope: Any,
        default_name: str | None = None,
        values: Any = None,
        initializer: Any = None,
        regularizer: Any = None,
        caching_device: Any = None,
        partitioner: Any = None,
        custom_getter: Any = None,
        reuse: object = None,
        dtype: Any = None,
        use_resource: bool | None = None,
        constraint: Any = None,
        auxiliary_name_scope: bool = True,
    ) -> None:
        if default_name is None and name_or_scope is None:
            raise TypeError("If default_name is None then name_or_scope is required")
        if name_or_scope is not None and not isinstance(name_or_scope, (str, VariableScope)):
            raise TypeError("VariableScope: name_or_scope must be a string or VariableScope.")
        if reuse is False:
            reuse = None  # to inherit, as TensorFlow reads it
        if reuse not in (None, True, AUTO_REUSE):
            raise ValueError("The reuse parameter must be True or False or None.")
        if name_or_scope is None and reuse:
            raise ValueError("reuse=True cannot be used without a name_or_scope")
        self._name_or_scope = name_or_scope
        self._default_name = default_name
        self._values = list(values or ())
        self._reuse = reuse
        self._auxiliary = auxiliary_name_scope
        self._custom_getter = custom_getter
        self._settings = {
            "initializer": initializer,
            "regularizer": regularizer,
            "caching_device": caching_device,
            "partitioner": partitioner,
            "dtype": None if dtype is None else as_dtype(dtype),
            "use_resource": use_resource,
        }
        self._constraint = constraint
        self._stacks: list[ExitStack] = []

    def __enter__(self) -> VariableScope:
        with ExitStack() as stack:
            scope = self._enter(stack)
            self._stacks.append(stack.pop_all())
        return scope

    def __exit__(self, *exc_info: Any) -> None:
        self._stacks.pop().__exit__(*exc_info)

    def _enter(self, stack: ExitStack) -> VariableScope:
        target = self._name_or_scope
        graph = graph_of(self._values)
        if graph is not get_default_graph():
            stack.enter_context(graph.as_default())
        store = _scope_store()
        old = store.current
        if target is None:
            assert self._default_name is not None
            entered = self._name_block(stack, self._default_name)
            return self._pure(
                stack, store, old, self._unique(store, old, self._default_name), entered
            )
        if isinstance(target, VariableScope):
            self._name_block(stack, target.name.rpartition("/")[2])
            return self._again(stack, store, target)
        return self._pure(stack, store, old, target, self._name_block(stack, target))

    def _name_block(self, stack: ExitStack, name: str) -> str:
        """Open the name scope and return its prefix."""
        if not self._auxiliary:
            current = get_name_scope()
            return current + "/" if current else ""
        return stack.enter_context(get_default_graph().name_scope(name)) if name else ""

    @staticmethod
    def _unique(store: _ScopeStore, old: VariableScope, prefix: str) -> str:
        base = f"{old.name}/{prefix}" if old.name else prefix
        if not store.opened.get(base):
            return prefix
        i = 1
        while store.opened.get(f"{base}_{i}"):
            i += 1
        return f"{prefix}_{i}"

    def _with_settings(
        self, base: VariableScope, name: str, original_name_scope: str
    ) -> VariableScope:
        given = {
            key: value if value is not None else getattr(base, key)
            for key, value in self._settings.items()
        }
        return VariableScope(
            self._reuse or base.reuse,
            name=name,
            name_scope=original_name_scope,
            custom_getter=_composed(base.custom_getter, self._custom_getter),
            constraint=self._constraint,  # the only setting that is not inherited
            **given,
        )

    def _again(self, stack: ExitStack, store: _ScopeStore, target: VariableScope) -> VariableScope:
        store.open(target.name)
        opened = dict(store.opened)
        stack.callback(setattr, store, "opened", opened)
        return stack.enter_context(
            _entered(store, self._with_settings(target, target.name, target.original_name_scope))
        )

    def _pure(
        self,
        stack: ExitStack,
        store: _ScopeStore,
        old: VariableScope,
        name: str,
        original_name_scope: str,
    ) -> VariableScope:
        full_name = f"{old.name}/{name}" if old.name else name
        store.open(full_name)
        stack.callback(store.close_inside, full_name)
        return stack.enter_context(
            _entered(store, self._with_settings(old, full_name, original_name_scope))
        )


@contextmanager
def pure_scope(
    name: str, unique_name: str | None, custom_getter: VariableGetter | None
) -> Iterator[VariableScope]:
    """Open a variable scope without a name scope.

    name: made unique unless there is a unique_name.
    """
    maker = variable_scope(name, custom_getter=custom_getter)
    store = _scope_store()
    chosen = unique_name or maker._unique(store, store.current, name)
    with ExitStack() as stack:
        yield maker._pure(stack, store, store.current, chosen, chosen)


@contextmanager
def variable_op_scope(
    values: Structure,
    name_or_scope: Structure,
    default_name: str | None = None,
    initializer: InitializerLike | None = None,
    regularizer: RegularizerLike | None = None,
    caching_device: DeviceLike | None = None,
    partitioner: PartitionerLike | None = None,
    custom_getter: VariableGetter | None = None,
    reuse: object = None,
    dtype: DTypeLike | None = None,
    use_resource: bool | None = None,
    constraint: ConstraintLike | None = None,
) -> Iterator[VariableScope]:
    """Open a `variable_scope` by its old name and order of arguments."""
    with variable_scope(
        name_or_scope,
        default_name,
        values,
        initializer,
        regularizer,
        caching_device,
        partitioner,
        custom_getter,
        reuse,
        dtype,
        use_resource,
        constraint,
    ) as scope:
        yield scope
