"""Print and parse the text form of values, and its parts.

Values are attrs of nodes, and constants:

1, 1.5, nan, True, b'text', float32, <2,?> (shape; <*> of unknown rank), [1, 2],
float32<2>[1.0, 2.0] (tensor; "[0.0 ...]" repeats the last; "..." with a name refers to a file,
`tensor_files.py`), func'name'{a=1}, $name (a function's attr), group(...) (`group_text.py`),
loop {...} over several lines (`loop_text.py`).
"""

from __future__ import annotations

import ast
import base64
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, NoReturn

import numpy as np

from tfjit.framework.op_defs.attrs import FuncRef, Unset
from tfjit.framework.types import dtypes
from tfjit.framework.types.dtypes import DType
from tfjit.framework.types.shape import Shape, TensorShape
from tfjit.framework.types.tensors import OpaqueTensor
from tfjit.kernels.ir.fused_group import FusedGroup
from tfjit.kernels.ir.loop_program import LoopProgram
from tfjit.passes.text.group_text import KEY, QUOTED, WORD, format_group, read_group
from tfjit.passes.text.loop_text import CLOSING, OPENING, format_program, read_program
from tfjit.passes.text.tensor_files import TensorFiles

INLINE_ELEMENTS: Final = 16
_NUMBER: Final = re.compile(
    r"[+-]?(?:\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?|inf|nan)(?![\w])"
)
_BYTES: Final = re.compile(r"b(?:'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")", re.DOTALL)
_SHAPE: Final = re.compile(r"<\s*([\d?,\s*]*)>")
_ELIDED: Final = re.compile(r"\.\.\.([0-9a-f]*)")


class TextError(ValueError):
    """A text that is no graph; the message gives line and reason."""


Full = bool | TensorFiles
"""True to write tensors of any size, or files for large ones."""


def format_value(value: Any, *, full: Full = False) -> str:
    """Return an attr value as text."""
    if isinstance(value, DType):
        return value.name
    if isinstance(value, (bool, int, bytes)):
        return repr(value)
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, TensorShape):
        return format_shape(value.dims_tuple)
    if isinstance(value, np.ndarray):
        return _format_tensor(value, full)
    if isinstance(value, (tuple, list)):
        return "[" + ", ".join(format_value(item, full=full) for item in value) + "]"
    if isinstance(value, FuncRef):
        attrs = (f"{k}={format_value(v, full=full)}" for k, v in sorted(value.attrs.items()))
        return f"func{value.name!r}{{{', '.join(attrs)}}}"
    if isinstance(value, Unset):
        return f"${value.name}"
    if isinstance(value, OpaqueTensor):
        return f"opaque({value.dtype.name}, {base64.b64encode(value.serialized)!r})"
    if isinstance(value, FusedGroup):
        return format_group(value, lambda inner: format_value(inner, full=full))
    if isinstance(value, LoopProgram):
        return format_program(value, lambda inner: format_value(inner, full=full))
    return f"<<{type(value).__name__}>>"


def format_shape(shape: Shape) -> str:
    """Return a shape as text."""
    if shape is None:
        return "<*>"
    return "<" + ",".join("?" if size is None else str(size) for size in shape) + ">"


def _format_tensor(array: np.ndarray, full: Full) -> str:
    dtype = dtypes.as_dtype(array.dtype)
    head = dtype.name + format_shape(array.shape)
    flat = array.reshape(-1)
    if dtype is dtypes.string:
        if flat.size <= INLINE_ELEMENTS or full:
            return f"{head}[{', '.join(repr(item) for item in flat)}]"
        return head + "..."
    if flat.dtype.names is None:
        raw = flat.tobytes()
        if flat.size > 1 and raw == raw[: flat.itemsize] * flat.size:
            text = f"{head}[{_format_element(flat[0])} ...]"
        elif flat.size <= INLINE_ELEMENTS:
            text = f"{head}[{', '.join(_format_element(item) for item in flat)}]"
        else:
            text = ""
        # a NaN with a payload does not survive decimal digits
        if text and np.asarray(ValueReader(text, 0).value()).tobytes() == raw:
            return text
    if isinstance(full, TensorFiles) and flat.size > INLINE_ELEMENTS:
        return f"{head}...{full.put(flat)}"
    if full or flat.size <= INLINE_ELEMENTS:
        return f"{head}{base64.b64encode(flat.tobytes())!r}"
    return head + "..."


def _format_element(item: Any) -> str:
    if isinstance(item, np.bool_):
        return str(bool(item))
    text = str(item)
    return text.strip("()") if isinstance(item, np.complexfloating) else text


def statements(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of a text with their numbers.

    The lines of a loop program are one.
    """
    began = 0
    held: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        if held:
            held.append(line)
            if CLOSING.match(line):
                yield began, "\n".join(held)
                held = []
        elif OPENING.search(line):
            began, held = number, [line]
        else:
            yield number, line
    if held:
        raise TextError(f"line {began}: a loop program does not end")


class ValueReader:
    """Reads values from one line, or from a loop program's lines."""

    def __init__(
        self, text: str, line: int, position: int = 0, files: TensorFiles | None = None
    ) -> None:
        self.text, self.line, self.position, self.files = text, line, position, files

    def fail(self, reason: str) -> NoReturn:
        """Raise TextError at the present position."""
        begin = self.text.rfind("\n", 0, self.position) + 1
        line = self.line + self.text.count("\n", 0, begin)
        raise TextError(f"line {line}, column {self.position - begin + 1}: {reason}")

    def rest(self) -> str:
        """Return the text that is left."""
        return self.text[self.position :].strip()

    def _skip(self) -> None:
        while self.position < len(self.text) and self.text[self.position].isspace():
            self.position += 1

    def take(self, token: str) -> bool:
        """Step over `token` if that comes next, and over the blanks behind."""
        self._skip()
        if self.text.startswith(token, self.position):
            self.position += len(token)
            self._skip()
            return True
        return False

    def expect(self, token: str) -> None:
        """Step over a token. Raises TextError if another text comes."""
        if not self.take(token):
            self.fail(
                f"expected {token!r}, found {self.text[self.position : self.position + 20]!r}"
            )

    def match(self, pattern: re.Pattern[str], what: str) -> re.Match[str]:
        """Step over a match. Raises TextError if there is none."""
        self._skip()
        found = pattern.match(self.text, self.position)
        if found is None:
            self.fail(f"expected {what}, found {self.text[self.position : self.position + 20]!r}")
        self.position = found.end()
        return found

    def value(self) -> Any:
        """Read a value."""
        self._skip()
        text, position = self.text, self.position
        if text.startswith("<<", position):
            self.fail("this value has no text form that can be read")
        if text.startswith("<", position):
            return TensorShape._of(self.shape())
        if self.take("["):
            return tuple(self._items("]"))
        if self.take("$"):
            return Unset(self.match(WORD, "a name")[0])
        if text.startswith(("func'", 'func"'), position):
            self.position += 4
            return self.func()
        if text.startswith(("b'", 'b"'), position):
            return self._bytes()
        number = _NUMBER.match(text, position)
        if number:
            self.position = number.end()
            return _number(number[0])
        word = self.match(WORD, "a value")[0]
        if word in ("True", "False"):
            return word == "True"
        if word == "group" and self.take("("):
            return read_group(self)
        if word == "loop" and self.take("{"):
            return read_program(self, self.fail)
        if word == "opaque" and self.take("("):
            dtype = self.value()
            self.expect(",")
            serialized = base64.b64decode(self._bytes())
            self.expect(")")
            return OpaqueTensor(dtype, serialized)
        dtype = dtypes._BY_NAME.get(word)
        if dtype is None:
            self.fail(f"{word!r} is no value")
        return self._tensor(dtype) if self.text.startswith("<", self.position) else dtype

    def outputs(self) -> Iterator[tuple[DType, Shape]]:
        """Yield the types and shapes of a node's outputs."""
        more = True
        while more:
            yield self._dtype(), self.shape()
            more = self.take(",")

    def argument_types(self) -> Iterator[DType]:
        """Yield the types of a function's arguments."""
        more = True
        while more:
            yield self._dtype()
            more = self.take(",")

    def _dtype(self) -> DType:
        word = self.match(WORD, "a dtype")[0]
        dtype = dtypes._BY_NAME.get(word)
        if dtype is None:
            self.fail(f"{word!r} is no dtype")
        return dtype

    def _items(self, end: str) -> list[Any]:
        items = []
        while not self.take(end):
            items.append(self.value())
            if not self.take(","):
                self.expect(end)
                break
        return items

    def _bytes(self) -> bytes:
        found: bytes = ast.literal_eval(self.match(_BYTES, "b'...'")[0])
        return found

    def func(self) -> FuncRef:
        """Read a function reference behind `func`."""
        name = ast.literal_eval("b" + self.match(QUOTED, "a quoted name")[0]).decode()
        self.expect("{")
        found: dict[str, Any] = {}
        while not self.take("}"):
            key = self.match(KEY, "key=value")[1]
            found[key] = self.value()
            if not self.take(","):
                self.expect("}")
                break
        return FuncRef(name, found)

    def shape(self) -> Shape:
        """Read a shape such as <2,?>."""
        inside = self.match(_SHAPE, "a shape")[1].replace(" ", "")
        if inside == "*":
            return None
        return tuple(None if size == "?" else int(size) for size in inside.split(",") if size)

    def _tensor(self, dtype: DType) -> np.ndarray:
        shape = self.shape()
        if shape is None or None in shape:
            self.fail("a tensor has a full shape")
        full_shape = tuple(size for size in shape if size is not None)
        size = int(np.prod(full_shape, dtype=np.int64))
        elided = _ELIDED.match(self.text, self.position)
        if elided is not None:
            self.position = elided.end()
            flat = np.frombuffer(self._file(elided[1]), dtype=dtype.as_numpy_dtype)
        elif self.text.startswith(("b'", 'b"'), self.position):
            flat = np.frombuffer(base64.b64decode(self._bytes()), dtype=dtype.as_numpy_dtype)
        else:
            flat = self._elements(dtype, size)
        if flat.size != size:
            self.fail(f"{flat.size} elements do not fill {format_shape(shape)}")
        array = flat.reshape(full_shape)
        array.setflags(write=False)
        return array

    def _file(self, name: str) -> bytes:
        if not name:
            self.fail("this tensor was elided; print the graph with full=True to read it back")
        if self.files is None:
            self.fail(f"this tensor stands in a file, {name}.bin; read_dump finds it")
        try:
            return self.files.get(name)
        except FileNotFoundError as error:
            self.fail(f"the file of this tensor is not there: {error.filename}")

    def _elements(self, dtype: DType, size: int) -> np.ndarray:
        self.expect("[")
        if dtype is dtypes.string:
            flat = np.empty(size, dtype=object)
            items: Sequence[Any] = self._items("]")
            if len(items) != size:
                self.fail(f"{len(items)} elements, expected {size}")
            flat[:] = items
            return flat
        end = self.text.find("]", self.position)
        if end < 0:
            self.fail("expected ']'")
        inside = self.text[self.position : end].strip()
        self.position = end + 1
        repeats = inside.endswith("...")
        words = [word.strip() for word in inside.removesuffix("...").split(",") if word.strip()]
        numpy_type = dtype.as_numpy_dtype
        if dtype.is_bool:
            values: list[Any] = [word == "True" for word in words]
        elif dtype.is_complex:
            values = [complex(word) for word in words]
        elif dtype.is_floating:
            values = [float(word) for word in words]
        else:
            values = [int(word) for word in words]
        if repeats:
            values += values[-1:] * (size - len(values))
        return np.array(values, dtype=numpy_type)


def _number(text: str) -> int | float:
    return int(text) if re.fullmatch(r"[+-]?\d+", text) else float(text)
