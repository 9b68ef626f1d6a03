"""Check rules when they are declared: patterns that nothing matches are errors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np

from tfjit.framework.errors import InvalidArgumentError, OpError
from tfjit.framework.op_defs import attrs as attr_forms
from tfjit.framework.op_defs.op_def import AttrDef, OpDef
from tfjit.framework.op_defs.op_registry import registry
from tfjit.framework.op_defs.op_traits import CONTROL_FLOW
from tfjit.framework.types.dtypes import DType
from tfjit.passes.manager.pass_registry import near_names
from tfjit.passes.patterns.expressions import (
    ANY_USES,
    Attr,
    AttrValue,
    Constant,
    Dim,
    Op,
    Output,
    Tensor,
    Value,
    all_dtypes,
    dtypes_text,
    node_of,
    walk,
)
from tfjit.passes.patterns.literals import Literal, cast, text_of
from tfjit.passes.patterns.matcher import MAX_COMMUTATIVE, is_commutative, key_of
from tfjit.passes.patterns.plan import type_attrs
from tfjit.passes.patterns.rewrite_rule import Rule, parameters

_Facts = dict[object, frozenset[DType]]


def check_rule(rule: Rule) -> None:
    """Check that a rule can match something, and that its replacement fits.

    Raises InvalidArgumentError with the rule's name and the fault.
    """
    try:
        _Check(rule).run()
    except (OpError, TypeError, ValueError) as error:
        text = error.message if isinstance(error, OpError) else str(error)
        raise InvalidArgumentError(None, None, f"rule '{rule.name}': {text}") from None


class _Check:
    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.names: dict[str, Value] = {}
        self.attrs: dict[str, None] = {}
        self.types: dict[str, tuple[str, ...]] = {}
        self.sizes: set[str] = set()
        self.parts: set[object] = set()
        self.facts: _Facts = {}
        self.every = frozenset(all_dtypes())

    def run(self) -> None:
        rule = self.rule
        if not isinstance(rule.pattern, Op):
            raise TypeError("the root of a pattern is an op: op.Mul(x, y), x * y, ...")
        for value in walk(rule.pattern):
            self.check_part(value)
        commutative = [
            value
            for value in walk(rule.pattern)
            if isinstance(value, Op)
            and len(value.inputs) == 2
            and all(map(is_commutative, value.kind.types))
        ]
        if len(commutative) > MAX_COMMUTATIVE:
            raise ValueError(
                f"the pattern has {len(commutative)} commutative nodes, at most "
                f"{MAX_COMMUTATIVE} are tried in both orders: make it two rules"
            )
        self.check_dtypes(rule.pattern)
        self.check_uses()
        if rule.when is not None:
            self.check_parameters("guard", parameters(rule.when))
        if isinstance(rule.replacement, Value):
            self.check_replacement(rule.replacement)
        else:
            self.check_parameters("replacement", parameters(rule.replacement))

    # ---- the pattern

    def check_part(self, value: Value) -> None:
        name = getattr(value, "name", "")
        if name:
            known = self.names.setdefault(name, value)
            same = known is value or (isinstance(value, Tensor) and _alike(known, value))
            if not same:
                raise ValueError(f"'{name}' names two parts of the pattern that differ")
        if isinstance(value, Tensor):
            self.parts.add(key_of(value))
            self.check_dims(value.shape, value.rank, str(value))
            if isinstance(value, Constant):
                self.check_constant(value)
            elif not isinstance(value, Tensor) or not value.name:
                raise ValueError("a tensor of a pattern has a name")
        elif isinstance(value, Op):
            self.parts.add(id(value))
            if value.attrs_of:
                raise ValueError("with_attrs_of belongs to a replacement")
            self.check_dims(value.shape, value.rank, str(value.kind))
            for child in value.inputs:
                if isinstance(child, Output):
                    self.check_output(child)
            self.check_op(value)
        else:
            raise TypeError(f"a pattern is made of ops, tensors and constants, not of {value!r}")

    def check_op(self, value: Op, replaces: bool = False) -> None:
        """Check op types, number of inputs and attrs of a node."""
        kind = value.kind
        if not kind.types:
            raise ValueError(f"op type '{kind.name}' has no types to choose from")
        known = kind.types if replaces else self.types.setdefault(kind.name, kind.types)
        if kind.name and known != kind.types:
            raise ValueError(f"'{kind.name}' names two sets of op types")
        for op_type in kind.types:
            op_def = _op_def(op_type)
            if op_def.traits & CONTROL_FLOW:
                raise ValueError(
                    f"{op_type} is control flow: its inputs are in another frame or branch, and "
                    "no rule rewrites across that"
                )
            _check_arity(op_def, len(value.inputs))
            if not op_def.outputs:
                raise ValueError(f"{op_type} has no output, and rules replace outputs")
            for name, wanted in value.attrs.items():
                declared = op_def.attr(name)
                if declared is None:
                    raise ValueError(
                        f"{op_type} has no attr '{name}'{near_names(name, op_def.attr_by_name)}"
                    )
                self.check_attr(op_type, declared, wanted, replaces)

    def check_attr(
        self, op_type: str, declared: AttrDef, wanted: AttrValue, replaces: bool
    ) -> None:
        if isinstance(wanted, Attr):
            if replaces and wanted.name not in self.attrs:
                raise ValueError(
                    f"the pattern does not bind the attr '{wanted.name}'"
                    f"{near_names(wanted.name, self.attrs)}"
                )
            self.attrs[wanted.name] = None
        elif not callable(wanted):
            converted = attr_forms.convert(wanted, declared.type, declared.name, op_type)
            try:
                attr_forms.check(converted, declared)
            except OpError as error:
                raise ValueError(f"{op_type}: {error.message}") from None
        elif replaces:
            raise TypeError(f"{op_type}'s attr '{declared.name}' is a function; give its value")

    def check_output(self, value: Output) -> None:
        for op_type in value.node.kind.types:
            outputs = _op_def(op_type).outputs
            if not any(arg.is_list for arg in outputs) and value.index >= len(outputs):
                raise ValueError(
                    f"{op_type} has {len(outputs)} outputs, the pattern uses output {value.index}"
                )

    def check_dims(self, shape: tuple[Dim, ...] | None, rank: int | None, where: str) -> None:
        if shape is None:
            return
        if rank is not None and rank != len(shape):
            raise ValueError(f"{where}: rank {rank} contradicts the shape of {len(shape)} sizes")
        if any(isinstance(dim, int) and dim < 0 for dim in shape):
            raise ValueError(f"{where}: a size is negative; an open size is None")
        self.sizes.update(dim for dim in shape if isinstance(dim, str))

    def check_constant(self, value: Constant) -> None:
        if value.value is None:
            return
        if isinstance(value.value, np.ndarray):
            if value.shape is not None and len(value.shape) != value.value.ndim:
                raise ValueError(f"constant {value} has another rank than its shape says")
            if value.when is not None and not value.when(value.value):
                raise ValueError(f"constant {value} contradicts its own predicate")

    def check_uses(self) -> None:
        nodes = [value for value in walk(self.rule.pattern) if isinstance(value, Op)]
        inside_of = Counter(
            id(found[0]) for value in nodes for found in map(node_of, value.inputs) if found
        )
        for value in nodes:
            count, inside = value.use_count, inside_of[id(value)]
            if count is not None and count != ANY_USES and count < inside:
                raise ValueError(
                    f"{value.kind} has {inside} uses in the pattern itself, and is to have {count}"
                )

    # ---- dtypes

    def check_dtypes(self, root: Value) -> None:
        """Narrow the dtypes of all parts by the op definitions."""
        nodes = [value for value in walk(root) if isinstance(value, Op)]
        changed = True
        while changed:
            changed = False
            for value in nodes:
                changed |= self.narrow(value)

    def narrow(self, value: Op) -> bool:
        changed = False
        for child in value.inputs:
            changed |= self.meet(child, self.own(child), value)
        changed |= self.meet(value, self.own(value), value)
        op_defs = [_op_def(op_type) for op_type in value.kind.types]
        if len(op_defs) > 1:
            return changed  # the types may differ in their dtypes
        op_def = op_defs[0]
        sources: list[tuple[Value, str, DType | None]] = [
            (child, name, fixed)
            for child, (name, fixed) in zip(
                value.inputs, type_attrs(op_def, len(value.inputs)), strict=True
            )
        ]
        if len(op_def.outputs) >= 1 and not op_def.outputs[0].is_list:
            arg = op_def.outputs[0]
            sources.append((value, arg.type_attr, arg.type))
        for name in {name for _, name, _ in sources if name}:
            declared = op_def.attr(name)
            allowed = frozenset(declared.allowed) if declared and declared.allowed else self.every
            given = value.attrs.get(name)
            if given is not None and not isinstance(given, Attr) and not callable(given):
                allowed &= {attr_forms.convert(given, "type", name, op_def.name)}
            for source, other, _ in sources:
                if other == name:
                    allowed &= self.possible(source)
            for source, other, _ in sources:
                if other == name:
                    changed |= self.meet(source, allowed, value)
        for source, _, fixed in sources:
            if fixed is not None:
                changed |= self.meet(source, frozenset({fixed.base_dtype}), value)
        return changed

    def possible(self, value: Value) -> frozenset[DType]:
        return self.facts.get(_fact_key(value), self.every)

    def own(self, value: Value) -> frozenset[DType]:
        """Return the dtypes that a part of an expression allows by itself."""
        found = self.every
        if isinstance(value, (Op, Tensor)) and value.dtypes is not None:
            found = frozenset(dtype.base_dtype for dtype in value.dtypes)
        if isinstance(value, Constant) and value.value is not None:
            found = frozenset(dtype for dtype in found if _holds(dtype, value.value))
        return found

    def meet(self, value: Value, allowed: frozenset[DType], user: Op) -> bool:
        before = self.possible(value)
        after = before & allowed
        if not after:
            raise ValueError(
                f"{value} in {user.kind}({', '.join(map(str, user.inputs))}) has no possible dtype"
                f": {dtypes_text(before)} on one side, {dtypes_text(allowed)} on the other"
            )
        self.facts[_fact_key(value)] = after
        return after != before

    # ---- the replacement

    def check_replacement(self, replacement: Value) -> None:
        root = self.rule.pattern
        found = node_of(replacement)
        if (found[0] if found else replacement) is root:
            raise ValueError("the replacement is the root itself")
        inside = [replacement]
        seen: set[int] = set()
        for value in inside:
            node = node_of(value)
            here = node[0] if node else value
            if id(here) in seen:
                continue
            seen.add(id(here))
            if here is root:
                raise ValueError("the replacement uses the root itself")
            if key_of(here) in self.parts:
                continue
            if isinstance(here, Op):
                self.check_new_node(here)
                inside += here.inputs
            elif not (isinstance(here, Constant) and here.value is not None):
                raise ValueError(
                    f"the replacement uses '{here}', which the pattern does not bind"
                    f"{near_names(str(here), self.names)}"
                )
        if not isinstance(replacement, Constant) or key_of(replacement) in self.parts:
            if isinstance(replacement, Op) and id(replacement) not in self.parts:
                self.check_dtypes(replacement)
            both = self.possible(replacement) & self.possible(root)
            if not both and not isinstance(replacement, Output):
                raise ValueError(
                    f"the replacement is {dtypes_text(self.possible(replacement))}, the pattern "
                    f"{dtypes_text(self.possible(root))}"
                )

    def check_new_node(self, value: Op) -> None:
        kind = value.kind
        if kind.name and kind.name not in self.types:
            raise ValueError(f"the pattern does not bind the op type '{kind.name}'")
        if not kind.name and len(kind.types) > 1 and kind.types[0] != "AddV2":
            raise ValueError(f"the replacement leaves open which of {kind} it makes")
        if value.attrs_of and value.attrs_of not in {*self.names, "root"}:
            raise ValueError(f"no node of the pattern is named '{value.attrs_of}'")
        self.check_op(value, replaces=True)
        if value.attrs_of:
            return
        for op_type in kind.types:
            op_def = _op_def(op_type)
            inferred = {arg.type_attr for arg in op_def.inputs} | {
                name for arg in op_def.inputs for name in (arg.number_attr, arg.type_list_attr)
            }
            missing = [
                attr.name
                for attr in op_def.attrs
                if not attr.has_default
                and attr.name not in inferred
                and attr.name not in value.attrs
            ]
            if missing:
                raise ValueError(
                    f"the replacement's {op_type} needs the attr '{missing[0]}', which neither "
                    "inputs nor defaults give"
                )

    def check_parameters(self, which: str, wanted: Iterable[str]) -> None:
        known = {*self.names, *self.attrs, *self.types, *self.sizes, "root"}
        for name in wanted:
            if name not in known:
                raise ValueError(
                    f"the {which} takes '{name}', which the pattern does not bind"
                    f"{near_names(name, known)}"
                )


def _op_def(op_type: str) -> OpDef:
    found = registry.lookup(op_type)
    if found is None:
        raise ValueError(f"unknown op type '{op_type}'{near_names(op_type, registry)}")
    return found


def _check_arity(op_def: OpDef, count: int) -> None:
    lists = sum(arg.is_list for arg in op_def.inputs)
    single = len(op_def.inputs) - lists
    if lists == 0 and count != single:
        shown = ", ".join(arg.name for arg in op_def.inputs)
        raise ValueError(f"{op_def.name} has {single} inputs ({shown}), the pattern {count}")
    if lists and (count < single or (lists > 1 and (count - single) % lists)):
        raise ValueError(f"{op_def.name} never has {count} inputs")


def _alike(a: Value, b: Value) -> bool:
    """Return whether two variables of one name ask for the same."""
    if type(a) is not type(b) or not isinstance(a, Tensor) or not isinstance(b, Tensor):
        return False
    same = a.dtypes == b.dtypes and a.shape == b.shape and a.rank == b.rank
    if isinstance(a, Constant) and isinstance(b, Constant):
        same = same and text_of(a.value) == text_of(b.value) and a.when is b.when
    return same


def _fact_key(value: Value) -> object:
    if isinstance(value, Output):
        return (id(value.node), value.index) if value.index else id(value.node)
    return key_of(value)


def _holds(dtype: DType, value: Literal) -> bool:
    if dtype.name == "string":
        return np.asarray(value).dtype.kind in "SO"
    if not dtype.is_numpy_compatible or dtype.is_quantized:
        return False
    return cast(value, np.dtype(dtype.as_numpy_dtype)) is not None
