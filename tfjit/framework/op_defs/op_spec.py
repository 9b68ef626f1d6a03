"""The little language of op definitions.

Examples: "x: Ref(T)", "values: N * T", "T: {half, float} = DT_FLOAT", "N: int >= 1".
"""

from __future__ import annotations

import re
from typing import Any, Final

from tfjit.framework.op_defs.attrs import FuncRef
from tfjit.framework.types import dtypes
from tfjit.framework.types.dtypes import DType
from tfjit.framework.types.shape import TensorShape


def _set(names: str) -> tuple[DType, ...]:
    return tuple(dtypes.BY_ENUM_NAME["DT_" + name.upper()] for name in names.split())


TYPE_SETS: Final[dict[str, tuple[DType, ...]]] = {
    "numbertype": _set(
        "float double int32 uint8 int16 int8 complex64 int64 qint8 quint8 qint32 bfloat16 qint16 "
        "quint16 uint16 complex128 half uint32 "
        "uint64"
    ),
    "realnumbertype": _set(
        "float double int32 uint8 int16 int8 int64 bfloat16 uint16 half uint32 uint64"
    ),
    "quantizedtype": _set("qint8 quint8 qint32 qint16 quint16"),
}
_SCALARS: Final = ("string", "int", "float", "bool", "type", "shape", "tensor", "func")
_NAME: Final = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]*)\s*:\s*")
_STRING: Final = re.compile(r"""\s*(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)")\s*""")


def parse_type_name(text: str) -> DType | None:
    """Return the DType of "float", "DT_FLOAT" or "float32", or None."""
    text = text.strip()
    found = dtypes.BY_ENUM_NAME.get("DT_" + text.upper()) or dtypes.BY_ENUM_NAME.get(text)
    if found is None:
        try:
            found = dtypes.as_dtype(text)
        except TypeError:
            return None
    return found


class SpecError(ValueError):
    """An op definition that can't be read."""


def parse_attr(spec: str) -> dict[str, Any]:
    """Return the fields of an AttrDef from its spec.

    Fields are name, type, allowed, minimum, default (only where the spec has one).
    """
    match = _NAME.match(spec)
    if match is None:
        raise SpecError(f"attr spec {spec!r} does not start with a name")
    fields: dict[str, Any] = {"name": match.group(1)}
    rest = spec[match.end() :].strip()
    rest, in_list = (rest, False) if not rest.startswith("list(") else (rest[5:].lstrip(), True)
    if rest.startswith("{"):
        kind, allowed, rest = _parse_set(rest, spec)
        fields["allowed"] = allowed
    else:
        word = re.match(r"[a-z_0-9]+", rest)
        if word is None:
            raise SpecError(f"attr spec {spec!r} has no type")
        kind = word.group(0)
        rest = rest[word.end() :]
        if kind in TYPE_SETS:
            fields["allowed"] = TYPE_SETS[kind]
            kind = "type"
        elif kind not in _SCALARS:
            raise SpecError(f"attr spec {spec!r} has unknown type {kind!r}")
    if in_list:
        rest = rest.lstrip()
        if not rest.startswith(")"):
            raise SpecError(f"attr spec {spec!r}: list( is not closed")
        rest = rest[1:]
        kind = f"list({kind})"
    fields["type"] = kind
    bound = re.match(r"\s*>=\s*(-?\d+)", rest)
    if bound is not None:
        if kind != "int" and not in_list:
            raise SpecError(f"attr spec {spec!r}: only int and list attrs have a minimum")
        fields["minimum"] = int(bound.group(1))
        rest = rest[bound.end() :]
    rest = rest.strip()
    if rest.startswith("="):
        fields["default"] = parse_value(rest[1:].strip(), kind, spec)
    elif rest:
        raise SpecError(f"attr spec {spec!r}: can't read {rest!r}")
    return fields


def _parse_set(rest: str, spec: str) -> tuple[str, tuple[Any, ...], str]:
    end = _closing(rest, spec)
    inside, rest = rest[1:end], rest[end + 1 :]
    if _STRING.match(inside):
        strings = []
        position = 0
        while position < len(inside):
            match = _STRING.match(inside, position)
            if match is None:
                raise SpecError(f"attr spec {spec!r}: can't read set {inside!r}")
            strings.append(_unquote(match))
            position = match.end() + 1  # the comma
        return "string", tuple(strings), rest
    types: list[DType] = []
    for name in inside.split(","):
        name = name.strip()
        if not name:
            continue
        if name in TYPE_SETS:
            types.extend(TYPE_SETS[name])
            continue
        dtype = parse_type_name(name)
        if dtype is None:
            raise SpecError(f"attr spec {spec!r}: unknown type {name!r}")
        types.append(dtype)
    return "type", tuple(types), rest


def _closing(text: str, spec: str) -> int:
    quote = ""
    for i, c in enumerate(text):
        if quote:
            quote = "" if c == quote else quote
        elif c in "'\"":
            quote = c
        elif c == "}":
            return i
    raise SpecError(f"attr spec {spec!r}: {{ is not closed")


def _unquote(match: re.Match[str]) -> bytes:
    text = match.group(1) if match.group(1) is not None else match.group(2)
    return text.encode().decode("unicode_escape").encode("latin-1")


def parse_value(text: str, kind: str, spec: str) -> Any:
    """Return a default value of an op definition in its Python form."""
    if kind.startswith("list("):
        if not (text.startswith("[") and text.endswith("]")):
            raise SpecError(f"attr spec {spec!r}: default {text!r} is no list")
        inside = text[1:-1].strip()
        element = kind[5:-1]
        if not inside:
            return ()
        return tuple(parse_value(item, element, spec) for item in _split(inside))
    if kind == "string":
        match = _STRING.fullmatch(text)
        if match is not None:
            return _unquote(match)
    elif kind == "int":
        if re.fullmatch(r"-?\d+", text):
            return int(text)
    elif kind == "float":
        import numpy as np

        return float(np.float32(text.rstrip("f") if text not in ("inf", "-inf") else text))
    elif kind == "bool":
        if text in ("true", "false"):
            return text == "true"
    elif kind == "type":
        dtype = parse_type_name(text)
        if dtype is not None:
            return dtype
    elif kind == "shape":
        return _parse_shape(text, spec)
    elif kind == "func":
        return FuncRef(text)
    raise SpecError(f"attr spec {spec!r}: can't read default {text!r} of type {kind}")


def _split(text: str) -> list[str]:
    """Split at commas that stand in no bracket or quote."""
    parts, depth, quote, start = [], 0, "", 0
    for i, c in enumerate(text):
        if quote:
            quote = "" if c == quote else quote
        elif c in "'\"":
            quote = c
        elif c in "[{(":
            depth += 1
        elif c in "]})":
            depth -= 1
        elif c == "," and not depth:
            parts.append(text[start:i].strip())
            start = i + 1
    parts.append(text[start:].strip())
    return parts


def _parse_shape(text: str, spec: str) -> TensorShape:
    if re.fullmatch(r"\{\s*unknown_rank\s*:\s*true\s*\}", text) or text == "<unknown>":
        return TensorShape(None)
    if text.startswith("{"):
        sizes = [int(n) for n in re.findall(r"size\s*:\s*(-?\d+)", text)]
        return TensorShape([None if n == -1 else n for n in sizes])
    if text.startswith("[") and text.endswith("]"):
        items = [item.strip() for item in text[1:-1].split(",") if item.strip()]
        return TensorShape([None if item in ("?", "-1", "None") else int(item) for item in items])
    raise SpecError(f"attr spec {spec!r}: can't read shape {text!r}")


def parse_arg(spec: str, attr_types: dict[str, str]) -> dict[str, Any]:
    """Return the fields of an ArgDef from its spec.

    `attr_types` tells the op's type attrs from its list(type) attrs.
    """
    match = _NAME.match(spec)
    if match is None:
        raise SpecError(f"arg spec {spec!r} does not start with a name")
    fields: dict[str, Any] = {"name": match.group(1)}
    rest = spec[match.end() :].strip()
    reference = re.fullmatch(r"Ref\s*\((.*)\)", rest)
    if reference is not None:
        fields["is_ref"] = True
        rest = reference.group(1).strip()
    count = re.fullmatch(r"([A-Za-z_][A-Za-z0-9_]*)\s*\*\s*([A-Za-z_][A-Za-z0-9_]*)", rest)
    if count is not None:
        fields["number_attr"] = count.group(1)
        rest = count.group(2)
        if attr_types.get(fields["number_attr"]) != "int":
            raise SpecError(
                f"arg spec {spec!r}: {fields['number_attr']!r} is no int attr of the op"
            )
    kind = attr_types.get(rest)
    if kind == "type":
        fields["type_attr"] = rest
    elif kind == "list(type)":
        fields["type_list_attr"] = rest
    elif kind is None:
        dtype = parse_type_name(rest)
        if dtype is None:
            raise SpecError(f"arg spec {spec!r}: {rest!r} is neither a type nor an attr of the op")
        fields["type"] = dtype
    else:
        raise SpecError(f"arg spec {spec!r}: attr {rest!r} is no type but {kind}")
    return fields
