"""The text form of fused groups, in dumps and in tests.

    group('rows', 'softmax', anchor=0, costs=[128, 512, 96], inputs=[float32<4,8>],
          constants=[int32<1>[1]],
          members=['m/max' Max(%in0, %const0, keep_dims=True) -> float32<4,1>,
          'm/sub' Sub(%in0, %0) -> float32<4,8>], outputs=[%1])

(on one line). Values are `%in0` for external inputs, `%const0` for constants of the group, `%1` or
`%1:2` for an output of a member. `costs` are bytes moved, bytes unfused, flops.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from typing import Any, Final, Protocol

import numpy as np

from tfjit.framework.types import dtypes
from tfjit.kernels.ir.fused_group import CONSTANT, INPUT, FusedGroup, Member, Ref
from tfjit.kernels.registry import NodeSpec, TensorSpec

QUOTED: Final = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"")
_REF: Final = re.compile(r"%(in|const)?(\d+)(?::(\d+))?")
_TENSOR: Final = re.compile(r"(\w+)<([-\d,]*)>")  # negative sizes are unknown
KEY: Final = re.compile(r"([A-Za-z_][\w.]*)\s*=(?!=)")
WORD: Final = re.compile(r"[A-Za-z_]\w*")
_INDEX: Final = re.compile(r"(\d+)=")


class Reader(Protocol):
    """A reader of one line, at a position (`text_format.py` has one)."""

    text: str
    position: int

    def take(self, token: str) -> bool:
        """Step over a token if that comes next, and over blanks.

        "" steps over blanks alone.
        """

    def expect(self, token: str) -> None:
        """Step over a token. Raises TextError if another text comes."""

    def match(self, pattern: re.Pattern[str], what: str) -> re.Match[str]:
        """Step over a match. Raises TextError if there is none."""

    def value(self) -> Any:
        """Read an attr value."""


def format_group(group: FusedGroup, value: Callable[[Any], str]) -> str:
    """Return a group as text on one line.

    value: formats attr values and arrays.
    """
    members = ", ".join(_member(member, value) for member in group.members)
    costs = value((group.bytes_moved, group.bytes_unfused, group.flops))
    return (
        f"group({group.kind!r}, {group.reason!r}, anchor={group.anchor}, costs={costs}, "
        f"inputs=[{', '.join(map(tensor_text, group.inputs))}], "
        f"constants=[{', '.join(value(array) for array in group.constants)}], "
        f"members=[{members}], outputs=[{', '.join(map(_ref, group.outputs))}])"
    )


def _member(member: Member, value: Callable[[Any], str]) -> str:
    spec = member.spec
    given = [_ref(ref) for ref in member.inputs]
    given += [f"{key}={value(spec.attrs[key])}" for key in sorted(spec.attrs)]
    text = (
        f"{spec.name!r} {spec.op}({', '.join(given)}) -> {' '.join(map(tensor_text, spec.outputs))}"
    )
    known = " ".join(f"{k}={value(array)}" for k, array in sorted(spec.constants.items()))
    return f"{text} with {known}" if known else text


def _ref(ref: Ref) -> str:
    if ref.member == INPUT:
        return f"%in{ref.index}"
    if ref.member == CONSTANT:
        return f"%const{ref.index}"
    return f"%{ref.member}:{ref.index}" if ref.index else f"%{ref.member}"


def tensor_text(spec: TensorSpec) -> str:
    """Return a dtype and a static shape as text: float32<2,3>."""
    return f"{spec.dtype.name}<{','.join(map(str, spec.shape))}>"


def read_group(reader: Reader) -> FusedGroup:
    """Read a group behind its opening `group(`. Raises TextError."""
    kind = quoted(reader)
    reader.expect(",")
    reason = quoted(reader)
    anchor = _named(reader, "anchor")
    costs = _named(reader, "costs")
    inputs = tuple(_list(reader, "inputs", read_tensor))
    constants = tuple(_list(reader, "constants", lambda reader: _frozen(reader.value())))
    made: list[Member] = []

    def specs(ref: Ref) -> TensorSpec:
        if ref.member == INPUT:
            return inputs[ref.index]
        if ref.member == CONSTANT:
            array = constants[ref.index]
            return TensorSpec(dtypes.as_dtype(array.dtype), array.shape)
        return made[ref.member].spec.outputs[ref.index]

    def read(reader: Reader) -> None:
        made.append(_read_member(reader, specs))

    _list(reader, "members", read)
    outputs = tuple(_list(reader, "outputs", _read_ref))
    reader.expect(")")
    moved, unfused, flops = costs
    return FusedGroup(
        kind, tuple(made), inputs, outputs, constants, reason, moved, unfused, flops, anchor
    )


def _read_member(reader: Reader, specs: Callable[[Ref], TensorSpec]) -> Member:
    name = quoted(reader)
    reader.take("")
    op = reader.match(WORD, "an op type")[0]
    reader.expect("(")
    refs: list[Ref] = []
    attrs: dict[str, Any] = {}
    while not reader.take(")"):
        if reader.text.startswith("%", reader.position):
            refs.append(_read_ref(reader))
        else:
            key = reader.match(KEY, "a value or key=value")[1]
            attrs[key] = reader.value()
        if not reader.take(","):
            reader.expect(")")
            break
    reader.expect("->")
    outputs: list[TensorSpec] = []
    while _TENSOR.match(reader.text, reader.position):
        outputs.append(read_tensor(reader))
        reader.take("")
    known: dict[int, np.ndarray] = {}
    if reader.take("with"):
        while index := _INDEX.match(reader.text, reader.position):
            reader.position = index.end()
            known[int(index[1])] = _frozen(reader.value())
            reader.take("")
    spec = NodeSpec(name, op, attrs, tuple(map(specs, refs)), tuple(outputs), known)
    return Member(spec, tuple(refs))


def _read_ref(reader: Reader) -> Ref:
    found = reader.match(_REF, "a value such as %in0")
    index = int(found[2])
    if found[1]:
        return Ref(INPUT if found[1] == "in" else CONSTANT, index)
    return Ref(index, int(found[3] or 0))


def read_tensor(reader: Reader) -> TensorSpec:
    """Read a dtype and a static shape."""
    found = reader.match(_TENSOR, "a dtype and shape")
    return TensorSpec(dtypes.as_dtype(found[1]), tuple(int(n) for n in found[2].split(",") if n))


def quoted(reader: Reader) -> str:
    """Read a text in quotes."""
    text: str = ast.literal_eval(reader.match(QUOTED, "a quoted text")[0])
    return text


def _named(reader: Reader, name: str) -> Any:
    reader.expect(",")
    reader.expect(f"{name}=")
    return reader.value()


def _list(reader: Reader, name: str, item: Callable[[Reader], Any]) -> list[Any]:
    reader.expect(",")
    reader.expect(f"{name}=")
    reader.expect("[")
    items = []
    while not reader.take("]"):
        items.append(item(reader))
        if not reader.take(","):
            reader.expect("]")
            break
    return items


def _frozen(array: np.ndarray) -> np.ndarray:
    array.setflags(write=False)
    return array
