"""Python functions that graphs call, by the token of their PyFunc node.

A function lives as long as the graph whose node calls it (`Graph` keeps the object that `register`
returns). Tokens of a TensorFlow graph are looked up in TensorFlow's own registry, which is there
whenever such a token is.
"""

from __future__ import annotations

import itertools
import sys
import weakref
from collections.abc import Callable
from typing import Any, Final

_PREFIX: Final = "tfjit_pyfunc_"
_numbers: Final = itertools.count()


class _Entry:
    """A weakly referenced place for a function.

    Functions themselves may not take weak references.
    """

    __slots__ = ("__weakref__", "function")

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function


_entries: Final[weakref.WeakValueDictionary[str, _Entry]] = weakref.WeakValueDictionary()


def register(function: Callable[..., Any]) -> tuple[str, object]:
    """Return a function's new token, and the object that keeps it alive."""
    token = f"{_PREFIX}{next(_numbers)}"
    entry = _entries[token] = _Entry(function)
    return token, entry


def find(token: str) -> Callable[..., Any] | None:
    """Return the function behind a token, or None without one."""
    entry = _entries.get(token)
    if entry is not None:
        return entry.function
    theirs = getattr(sys.modules.get("tensorflow.python.ops.script_ops"), "_py_funcs", None)
    found = theirs.get(token) if theirs is not None else None
    return found if found is None else _of_tensorflow(found)


def _of_tensorflow(function: Any) -> Callable[..., Any]:
    """Return a function of TensorFlow's registry, called as TensorFlow does.

    tf.py_function's are called with eager tensors, tf.numpy_function's with arrays.
    """
    script_ops: Any = sys.modules["tensorflow.python.ops.script_ops"]
    if not isinstance(function, script_ops.EagerFunc):
        plain: Callable[..., Any] = function
        return plain
    context: Any = sys.modules["tensorflow.python.eager.context"]
    ops: Any = sys.modules["tensorflow.python.framework.ops"]

    def call(*args: Any) -> Any:
        with context.eager_mode():
            result = function("CPU:0", "", [ops.convert_to_tensor(a) for a in args])
            if result is None:
                return None
            return (
                [r.numpy() for r in result] if isinstance(result, (list, tuple)) else result.numpy()
            )

    return call
