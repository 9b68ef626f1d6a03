"""Build the kernels of ops that users register.

They are a NumPy reference, and a scalar expression or a Python function for Numba to compile. The
function becomes a text that the compiler process can compile alone: its source without decorators
and annotations, the functions and numbers that it uses from its module, and imports of names from
other modules.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import math
import sys
import textwrap
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from tfjit.framework.errors import InvalidArgumentError
from tfjit.framework.scalar.elementwise import Elementwise
from tfjit.kernels import registry
from tfjit.kernels.cpu.template import cost_model, typed_pointers
from tfjit.kernels.registry import (
    Launch,
    NativeCall,
    NodeSpec,
    Pointer,
    TensorSpec,
    Unsupported,
    Word,
)
from tfjit.kernels.source import KernelSource, Source

_CHUNK: Final = ("chunk", "chunks")
"""Parameters of a function that does one part of the work."""
_ENTRY: Final = "tfjit_kernel"
_WORDS: Final = {
    "int": "tfjit_ir.word(args, {0})",
    "bool": "tfjit_ir.word(args, {0}) != 0",
    "float": "tfjit_ir.f64_word(args, {0})",
}
_PARAMETERS: Final = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
    inspect.Parameter.KEYWORD_ONLY,
)


def accepts(function: Callable[..., Any], name: str) -> bool:
    """Return whether a function has an argument of that name."""
    parameters = inspect.signature(function).parameters
    found = parameters.get(name)
    return (
        found.kind in _PARAMETERS
        if found is not None
        else any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    )


def reference_kernel(
    op_type: str, function: Callable[..., Any], attrs: Sequence[str]
) -> registry.Reference:
    """Return a user's NumPy function as a kernel.

    It is called with the inputs, and by name with those attrs that it takes. It returns an array,
    or a tuple or list of them. Raises InvalidArgumentError when these are not the declared outputs
    of the op.
    """
    taken = [name for name in attrs if accepts(function, name)]

    def kernel(spec: NodeSpec, inputs: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
        with np.errstate(all="ignore"):
            returned = function(
                *inputs, **{name: spec.attrs[name] for name in taken if name in spec.attrs}
            )
        results = list(returned) if isinstance(returned, (list, tuple)) else [returned]
        if spec.outputs and len(results) != len(spec.outputs):
            raise InvalidArgumentError(
                None,
                None,
                f"the reference of {op_type} gave {len(results)} outputs, expected "
                f"{len(spec.outputs)}",
            )
        return [_checked(op_type, k, r, spec, inputs) for k, r in enumerate(results)]

    return kernel


def _checked(
    op_type: str, k: int, result: Any, spec: NodeSpec, inputs: Sequence[np.ndarray]
) -> np.ndarray:
    array = np.asarray(result)
    if spec.outputs:
        wanted: TensorSpec = spec.outputs[k]
        if array.shape != wanted.shape:
            raise InvalidArgumentError(
                None,
                None,
                f"the reference of {op_type} gave shape {list(array.shape)} for output {k}, its "
                f"shape rule says {list(wanted.shape)}",
            )
        dtype = np.dtype(wanted.dtype.as_numpy_dtype)
        if array.dtype != dtype:
            if not np.can_cast(array.dtype, dtype, "same_kind"):
                raise InvalidArgumentError(
                    None,
                    None,
                    f"the reference of {op_type} gave {array.dtype} for output {k}, expected "
                    f"{wanted.dtype.name}",
                )
            array = array.astype(dtype)
    # The result must not share memory with an input.
    return (
        array.copy()
        if any(np.may_share_memory(array, x) for x in inputs if isinstance(x, np.ndarray))
        else array
    )


def register_expression(row: Elementwise) -> None:
    """Register the kernels of a row of the elementwise table."""

    def build(spec: NodeSpec) -> NativeCall:
        loop = importlib.import_module("tfjit.kernels.cpu.elementwise.loop")
        call: NativeCall = loop.loop_call(
            importlib.import_module("tfjit.kernels.cpu.template.iteration_space").single(spec)
        )
        return call

    registry.native(row.op)(build)
    registry.reference(row.op)(reference_kernel(row.op, row.reference, row.attrs))


@dataclass(frozen=True, slots=True)
class UserKernel:
    """A Python function over inputs, outputs and number attrs of an op.

    name: of the function in `text`, its module's text. inputs, outputs: names. attrs: name ->
    "int", "float" or "bool", for the attrs that it takes. is_chunked: it takes `chunk` and
    `chunks`, the number of its part of the work and the number of parts. cost_ns: predicted, an
    element of the largest array.
    """

    op_type: str
    name: str
    text: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attrs: Mapping[str, str]
    is_chunked: bool
    cost_ns: float

    def build(self, spec: NodeSpec) -> NativeCall:
        """Return one launch.

        Raises Unsupported for dtypes that compiled code does not hold.
        """
        words: list[Word] = []
        s = Source()
        tensors = [
            *zip(self.inputs, spec.inputs, strict=True),
            *zip(self.outputs, spec.outputs, strict=True),
        ]
        described = ", ".join(f"{name} {t.dtype.name}[{len(t.shape)}-d]" for name, t in tensors)
        s.line(f"# {self.op_type}, a user's op: {described}")
        # names that a user's function will hardly have
        s.line("from numba import carray as tfjit_array")
        s.line("from numba import njit as tfjit_njit")
        s.line("from tfjit.kernels.codegen import intrinsics as tfjit_ir")
        s.line()
        for line in self.text.splitlines():
            s.line(line)
        s.line()
        with s.block(f"def {_ENTRY}(args, chunk, nchunks):"):
            for k, (_, tensor) in enumerate(tensors):
                if tensor.dtype.name in ("float16", "bfloat16"):
                    raise Unsupported(f"a user's kernel cannot hold {tensor.dtype.name}")
                pointer = typed_pointers.register_pointer(
                    _register_type(tensor), f"tfjit_ir.word(args, {2 + len(words)})"
                )
                words.append(
                    Pointer("in", k)
                    if k < len(self.inputs)
                    else Pointer("out", k - len(self.inputs))
                )
                sizes = "".join(
                    f"tfjit_ir.word(args, {2 + len(words) + axis}), "
                    for axis in range(len(tensor.shape))
                )
                words.extend(tensor.shape)
                s.line(f"a{k} = tfjit_array(tfjit_ir.{pointer}, ({sizes}))")
            arguments = [f"a{k}" for k in range(len(tensors))]
            for name, kind in self.attrs.items():
                arguments.append(f"{name}={_WORDS[kind].format(2 + len(words))}")
                value = spec.attrs[name]
                words.append(
                    int(np.float64(value).view(np.int64)) if kind == "float" else int(value)
                )
            if self.is_chunked:
                arguments += ["chunk=chunk", "chunks=nchunks"]
            s.line(f"{self.name}({', '.join(arguments)})")
        elements = max((t.size for _, t in tensors), default=0)
        moved = sum(t.nbytes for t in (*spec.inputs, *spec.outputs))
        cost = cost_model.FIXED_NS + elements * self.cost_ns + cost_model.traffic_ns(moved)
        chunks = cost_model.chunks_for(cost, max(elements, 1)) if self.is_chunked else 1
        source = KernelSource(
            s.text(),
            (_ENTRY,),
            title=f"{self.name} {'/'.join(dict.fromkeys(t.dtype.name for t in spec.outputs))}",
            module=__name__,
        )
        return NativeCall((Launch(source, tuple(words), _ENTRY, chunks, cost),), bytes_moved=moved)


def _register_type(tensor: TensorSpec) -> str:
    """Return the Numba type of a tensor's elements, by name.

    Raises Unsupported for a type that compiled code does not hold.
    """
    from tfjit.kernels.codegen import expressions

    return expressions.register_type(tensor.dtype)


def user_kernel(
    op_type: str,
    function: Any,
    inputs: Sequence[str],
    outputs: Sequence[str],
    attrs: Mapping[str, str],
    cost_ns: float,
) -> UserKernel:
    """Return the kernel of a function.

    The function takes inputs and outputs by position, and attrs (name -> type) by name. Raises
    ValueError for a function that does not fit, or with a text that does not compile alone.
    """
    plain = getattr(function, "py_func", function)  # Numba's dispatcher
    if not isinstance(plain, types.FunctionType):
        raise ValueError(
            f"the kernel of {op_type} must be a Python function, got {type(function).__name__}"
        )
    parameters = list(inspect.signature(plain).parameters)
    positions = [*inputs, *outputs]
    given = parameters[: len(positions)]
    rest = parameters[len(positions) :]
    numbers = {name: kind for name, kind in attrs.items() if kind in _WORDS}
    unknown = [name for name in rest if name not in numbers and name not in _CHUNK]
    chunked = [name for name in _CHUNK if name in rest]
    if len(given) != len(positions) or unknown or len(chunked) == 1:
        raise ValueError(
            f"the kernel of {op_type} takes ({', '.join(parameters)}); expected the inputs and "
            f"outputs ({', '.join(positions)}), then any "
            f"of its number attrs ({', '.join(numbers) or 'it has none'}) and chunk, chunks"
        )
    text = _Module(op_type).text(plain)
    return UserKernel(
        op_type,
        plain.__name__,
        text,
        tuple(inputs),
        tuple(outputs),
        {name: numbers[name] for name in rest if name in numbers},
        bool(chunked),
        cost_ns,
    )


class _Module:
    """The text of a module with a function and its dependencies."""

    def __init__(self, op_type: str) -> None:
        self._op_type = op_type
        self._names: dict[str, Any] = {}
        self._head: list[str] = []
        self._functions: list[str] = []

    def text(self, function: types.FunctionType) -> str:
        """Return the module's text.

        It has imports and numbers, then functions, called ones before their callers.
        """
        self._function(function.__name__, function)
        return "\n".join([*sorted(self._head), "", *self._functions])

    def _fail(self, why: str) -> ValueError:
        return ValueError(f"the kernel of {self._op_type} {why}")

    def _function(self, name: str, function: types.FunctionType) -> None:
        self._names[name] = function
        try:
            source = textwrap.dedent(inspect.getsource(function))
            (tree,) = (node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef))
        except (OSError, TypeError, SyntaxError, ValueError):
            raise self._fail(
                f"uses {function.__qualname__}, whose source text cannot be read; write it as a "
                "`def` in a file"
            ) from None
        tree.decorator_list = []
        tree.returns = None
        tree.name = name
        # The kernel itself is called with all its arguments; Numba 0.68 fails on keyword-only
        # parameters.
        if len(self._names) == 1:
            tree.args.args += tree.args.kwonlyargs
            tree.args.kwonlyargs, tree.args.kw_defaults, tree.args.defaults = [], [], []
        for argument in (*tree.args.posonlyargs, *tree.args.args, *tree.args.kwonlyargs):
            argument.annotation = None
        found = inspect.getclosurevars(function)
        for used, value in {**found.globals, **found.nonlocals}.items():
            known = self._names.get(used)
            if used not in self._names:
                self._value(used, value)
            elif known is not value and known != value:
                raise self._fail(f"uses two different things by the name {used!r}")
        if found.unbound - _attributes(tree):
            missing = sorted(found.unbound - _attributes(tree))
            raise self._fail(f"uses {missing[0]!r}, which is not defined")
        self._functions.append(f'@tfjit_njit(error_model="numpy")\n{ast.unparse(tree)}\n')

    def _value(self, name: str, value: Any) -> None:
        plain = getattr(value, "py_func", value)
        if isinstance(plain, types.FunctionType) and not _is_public(plain):
            self._function(name, plain)
            return
        self._names[name] = value
        if isinstance(value, types.ModuleType):
            self._head.append(f"import {value.__name__} as {name}")
        elif type(value) in (int, float, bool, complex):
            finite = not isinstance(value, float) or math.isfinite(value)
            self._head.append(
                f"{name} = {value!r}" if finite else f"{name} = float({str(value)!r})"
            )
        elif isinstance(value, np.generic) and value.dtype.kind in "biufc":
            self._head += ["import numpy", f"{name} = numpy.{value.dtype.name}({value.item()!r})"]
        elif isinstance(value, tuple) and all(type(item) in (int, float, bool) for item in value):
            self._head.append(f"{name} = {value!r}")
        else:
            self._head.append(f"from {self._home(name, value)} as {name}")

    def _home(self, name: str, value: Any) -> str:
        """Return "module import name" of an object of another module."""
        own = getattr(value, "__name__", name)
        for module in dict.fromkeys([getattr(value, "__module__", None), "numpy", "math", "numba"]):
            if (
                module
                and module != "__main__"
                and getattr(sys.modules.get(module), own, None) is value
            ):
                return f"{module} import {own}"
        raise self._fail(
            f"uses {name!r}, a {type(value).__name__}, which cannot be given to the compiler; "
            "numbers, functions and modules can"
        )


def _attributes(tree: ast.AST) -> set[str]:
    """Return the names after a dot.

    `inspect.getclosurevars` takes them for unbound names.
    """
    return {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}


def _is_public(function: types.FunctionType) -> bool:
    """Return whether a function belongs to an importable library.

    Its import gives the function to the compiler, too.
    """
    return function.__module__.partition(".")[0] in ("numpy", "math", "numba")


def register_kernel(kernel: UserKernel) -> None:
    """Serve the op by the compiled function once it is compiled."""
    registry.native(kernel.op_type)(kernel.build)


def register_reference(op_type: str, function: Callable[..., Any], attrs: Sequence[str]) -> None:
    """Serve the op by a NumPy function."""
    registry.reference(op_type)(reference_kernel(op_type, function, attrs))
