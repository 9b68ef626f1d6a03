"""Functions that stand between `tf.Variable` and the variables that it makes."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tfjit.framework.graphs.default_graph import get_default_graph
from tfjit.framework.graphs.function_graph import outermost

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Structure


@contextmanager
def variable_creator_scope(variable_creator: Callable[..., Structure]) -> Iterator[None]:
    """Let a function make the variables of this block.

    variable_creator(next_creator, **kwargs): gets all arguments of `tf.Variable` by name, those of
    `get_variable`'s variables, too. next_creator(**kwargs) is the function of the block around, at
    last `tf.Variable` itself.
    """
    scopes = outermost(get_default_graph())._scopes
    before = scopes.variable_creators
    scopes.variable_creators = (*before, variable_creator)
    try:
        yield
    finally:
        scopes.variable_creators = before


class CreatedVariable(type):
    """The metaclass of variables: calls go through the creators."""

    def __call__(cls, *args: Structure, **kwargs: Structure) -> Structure:
        creators = outermost(get_default_graph())._scopes.variable_creators
        make = super().__call__
        if not creators or cls is not cls.mro()[-2]:
            return make(*args, **kwargs)
        construct: Structure = vars(cls)["__init__"]
        bound = inspect.signature(construct).bind(None, *args, **kwargs)
        bound.apply_defaults()
        arguments = {name: v for name, v in bound.arguments.items() if name != "self"}
        for creator in creators:
            make = functools.partial(creator, make)
        return make(**arguments)
