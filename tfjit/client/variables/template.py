"""`make_template`: functions that share variables among their calls."""

from __future__ import annotations

import functools
import logging
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from tfjit.client.variables.variable_scope import VariableScope, pure_scope, variable_scope
from tfjit.framework.graphs.default_graph import get_collection, get_collection_ref
from tfjit.framework.graphs.graph_keys import GraphKeys

if TYPE_CHECKING:
    from tfjit.client.variables.variables import Variable
    from tfjit.framework.graphs.typing import Structure, VariableGetter

_LOGGER: Final = logging.getLogger("tensorflow")


def make_template(
    name_: str,
    func_: Callable[..., Structure],
    create_scope_now_: bool = False,
    unique_name_: str | None = None,
    custom_getter_: VariableGetter | None = None,
    **kwargs: Structure,
) -> Template:
    """Return a function whose calls share variables.

    The first call makes them.

    name_: of its variable scope, made unique. func_: makes its variables by `get_variable`; kwargs
    are arguments of all calls. create_scope_now_: choose the scope's name here instead of in the
    first call. unique_name_: the scope's name as it is. custom_getter_: of the scope. Raises
    ValueError without a name, and in a call after the first that makes a trainable variable.
    """
    function = functools.partial(func_, **kwargs) if kwargs else func_
    return Template(name_, function, create_scope_now_, unique_name_, custom_getter_)


class Template:
    """A function in a variable scope that its calls share."""

    def __init__(
        self,
        name: str,
        func: Callable[..., Structure],
        create_scope_now: bool = False,
        unique_name: str | None = None,
        custom_getter: VariableGetter | None = None,
    ) -> None:
        if name is None:
            raise ValueError("name cannot be None.")
        self._name, self._unique_name = name, unique_name
        self._func, self._custom_getter = func, custom_getter
        self._made_at = traceback.format_stack()[:-2]
        self._variable_scope: VariableScope | None = None
        self._called = False
        self._finished = False  # a call has made all variables
        if create_scope_now:
            with pure_scope(name, unique_name, custom_getter) as scope:
                self._variable_scope = scope

    def __call__(self, *args: Structure, **kwargs: Structure) -> Structure:
        if self._variable_scope is not None:
            with variable_scope(self._variable_scope, reuse=self._called):
                return self._explained(args, kwargs)
        with variable_scope(
            self._unique_name, self._name, custom_getter=self._custom_getter
        ) as scope:
            self._variable_scope = scope
            return self._explained(args, kwargs)

    def _explained(self, args: Structure, kwargs: Structure) -> Structure:
        try:
            return self._call(args, kwargs)
        except Exception as error:
            here = traceback.format_stack()
            common = next(
                (k for k, pair in enumerate(zip(self._made_at, here)) if pair[0] != pair[1]), -1
            )
            first = error.args[0] if error.args else ""
            made_at = "".join(self._made_at[common:])
            error.args = (f"{first}\n\noriginally defined at:\n{made_at}", *error.args[1:])
            raise

    def _call(self, args: Structure, kwargs: Structure) -> Structure:
        if self._finished:
            trainable = get_collection_ref(GraphKeys.TRAINABLE_VARIABLES)
            variables = get_collection_ref(GraphKeys.GLOBAL_VARIABLES)
            before = len(trainable), len(variables)
            result = self._func(*args, **kwargs)
            if len(trainable) != before[0]:
                raise ValueError(
                    "Trainable variable created when calling a template after the first time, "
                    "perhaps you used tf.Variable when you meant tf.get_variable: "
                    f"{trainable[before[0] :]}"
                )
            if len(variables) != before[1]:
                _LOGGER.info(
                    "New variables created when calling a template after the first time, perhaps "
                    "you used tf.Variable when you meant tf.get_variable: %s",
                    variables[before[1] :],
                )
            return result
        first = not self._called
        self._called = True
        try:
            result = self._func(*args, **kwargs)
        except Exception:
            self._called = not first
            raise
        self._finished = True
        return result

    @property
    def name(self) -> str:
        """The name that it was made with."""
        return self._name

    @property
    def func(self) -> Callable[..., Structure]:
        """The function inside."""
        return self._func

    @property
    def variable_scope(self) -> VariableScope | None:
        """The scope of its variables.

        None before the first call, unless made at once.
        """
        return self._variable_scope

    var_scope = variable_scope

    @property
    def variable_scope_name(self) -> str | None:
        """The scope's name with a slash at the end."""
        if self._variable_scope is None:
            return None
        name = self._variable_scope.name
        return name if not name or name.endswith("/") else f"{name}/"

    def _collection(self, key: str) -> list[Variable]:
        return get_collection(key, self.variable_scope_name) if self._finished else []

    @property
    def variables(self) -> list[Variable]:
        """Its global and local variables."""
        return self.global_variables + self.local_variables

    @property
    def trainable_variables(self) -> list[Variable]:
        """Its trainable variables."""
        return self._collection(GraphKeys.TRAINABLE_VARIABLES)

    @property
    def non_trainable_variables(self) -> list[Variable]:
        """Its global variables that are not trainable."""
        trainable = self.trainable_variables
        return [variable for variable in self.global_variables if variable not in trainable]

    @property
    def global_variables(self) -> list[Variable]:
        """Its global variables."""
        return self._collection(GraphKeys.GLOBAL_VARIABLES)

    @property
    def local_variables(self) -> list[Variable]:
        """Its local variables."""
        return self._collection(GraphKeys.LOCAL_VARIABLES)

    weights = variables
    trainable_weights = trainable_variables
    non_trainable_weights = non_trainable_variables
