"""TensorFlow's answers to promises, in a file beside the tests.

`pytest --update-golden tests/distributed/session/test_grpc_session_promises.py` asks TensorFlow
again and writes them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import numpy as np

FILE: Final = Path(__file__).resolve().parent / "promises.json"


def _encoded(value: Any) -> Any:
    """Return a value as JSON has it; a kind that JSON lacks has its name before it."""
    if value is None or isinstance(value, (bool, int, float, str)):
        assert type(value).__module__ == "builtins", type(value)
        return value
    if isinstance(value, list):
        return ["list", *map(_encoded, value)]
    if isinstance(value, tuple):
        return ["tuple", *map(_encoded, value)]
    if isinstance(value, dict):
        return ["dict", *([_encoded(key), _encoded(item)] for key, item in value.items())]
    assert isinstance(value, (np.ndarray, np.generic)) and value.dtype != object, type(value)
    kind = "array" if isinstance(value, np.ndarray) else "scalar"
    return [kind, value.dtype.name, list(value.shape), value.flags.writeable, value.tolist()]


def _decoded(value: Any) -> Any:
    if not isinstance(value, list):
        return value
    kind, *items = value
    if kind in ("list", "tuple"):
        found = [_decoded(item) for item in items]
        return found if kind == "list" else tuple(found)
    if kind == "dict":
        return {_decoded(key): _decoded(item) for key, item in items}
    dtype, shape, writeable, elements = items
    array = np.array(elements, dtype).reshape(shape)
    if kind == "scalar":
        return array[()]
    array.flags.writeable = writeable
    return array


def _name(promise: str, count: int) -> str:
    return f"{promise}, {count} task{'s' * (count > 1)}"


def read(promise: str, count: int) -> Any:
    """Return the recorded answer over that many tasks. Raises KeyError for a new promise."""
    return _decoded(json.loads(FILE.read_text(encoding="utf-8"))[_name(promise, count)])


def write(promise: str, count: int, answer: Any) -> None:
    """Record an answer; the others stay."""
    known = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
    known[_name(promise, count)] = _encoded(answer)
    lines = [f" {json.dumps(name)}: {json.dumps(known[name])}" for name in sorted(known)]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
