"""Python functions as nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any

from tfjit.framework.graphs import py_functions
from tfjit.framework.graphs.default_graph import name_scope
from tfjit.framework.graphs.function_graph import outermost
from tfjit.framework.op_defs.op_traits import CALLS_PYTHON
from tfjit.framework.types.dtypes import as_dtype
from tfjit.ops.core.apply import create
from tfjit.ops.core.convert import convert_to_tensor
from tfjit.ops.core.declare import register_op
from tfjit.ops.core.shape_rules import unknown

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import DTypesLike, Structure

register_op(
    "EagerPyFunc",
    inputs=("input: Tin",),
    outputs=("output: Tout",),
    attrs=(
        "token: string",
        "is_async: bool = false",
        "Tin: list(type) >= 0",
        "Tout: list(type) >= 0",
    ),
    stateful=True,
    shape=unknown,
    traits=CALLS_PYTHON,
)
register_op(
    "PyFunc",
    inputs=("input: Tin",),
    outputs=("output: Tout",),
    attrs=("token: string", "Tin: list(type) >= 0", "Tout: list(type) >= 0"),
    stateful=True,
    shape=unknown,
    traits=CALLS_PYTHON,
)
register_op(
    "PyFuncStateless",
    inputs=("input: Tin",),
    outputs=("output: Tout",),
    attrs=("token: string", "Tin: list(type) >= 0", "Tout: list(type) >= 0"),
    shape=unknown,
    traits=CALLS_PYTHON,
)


def py_func(
    func: Callable[..., object],
    inp: Sequence[Any],
    Tout: Any,
    stateful: bool = True,
    name: str | None = None,
) -> Structure:
    """Call `func(*arrays)` of this process as a node.

    The function takes NumPy arrays and returns values of dtypes `Tout` (a dtype or a list of them).
    A stateless function is called once for equal inputs. Shapes of the outputs are not known; a
    list of dtypes gives a list of tensors, and an empty one gives the operation.

    Raises TypeError when `func` cannot be called. While running: InvalidArgumentError for values of
    other dtypes or another number of them, and for the function's own TypeError and ValueError;
    OutOfRangeError for StopIteration; UnknownError for any other exception.
    """
    if not callable(func):
        raise TypeError(f"Expected func to be callable. Received func={func} of type {type(func)}.")
    several = isinstance(Tout, (list, tuple))
    dtypes = [as_dtype(t) for t in (Tout if several else [Tout])]
    token, keep = py_functions.register(func)
    with name_scope(name, "PyFunc", list(inp)) as scope:
        values = [convert_to_tensor(v) for v in inp]
        operation = create(
            "PyFunc" if stateful else "PyFuncStateless",
            scope,
            input=values,
            token=token,
            Tin=[v.dtype.base_dtype for v in values],
            Tout=dtypes,
        )
    # a body may be gone when its function runs
    outermost(operation.graph).kept_alive.append(keep)
    outputs = list(operation.outputs)
    if not outputs:
        return operation
    return outputs if several else outputs[0]


def numpy_function(
    func: Callable[..., object] | None = None,
    inp: Sequence[object] | None = None,
    Tout: DTypesLike | None = None,
    stateful: bool = True,
    name: str | None = None,
) -> Structure:
    """Call a function as `py_func` does, or decorate one.

    Without `func`, the result is a decorator; the decorated function is called with tensors.

    Raises TypeError without Tout, and for inputs without a function.
    """
    if Tout is None:
        raise TypeError(
            "Missing required argument: 'Tout'. If using numpy_function as a decorator, set it, "
            "too."
        )
    if func is not None:
        return py_func(func, [] if inp is None else inp, Tout, stateful, name)
    if inp is not None:
        raise TypeError("Don't set the `inp` argument when using numpy_function as a decorator.")

    def decorator(function: Callable[..., object]) -> Callable[..., Structure]:
        return wraps(function)(lambda *args: py_func(function, args, Tout, stateful, name))

    return decorator
