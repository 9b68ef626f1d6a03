"""Build optimizer updates as compiled loops.

Variable and slots are written in place, in one pass over memory. Formulas: TensorFlow 2.21, the CPU
functors of its training ops, observed by running them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tfjit.kernels.cpu.template.cost_model import FIXED_NS, chunks_for, traffic_ns
from tfjit.kernels.registry import (
    Launch,
    NativeCall,
    NodeSpec,
    Pointer,
    TensorSpec,
    Unsupported,
    Word,
    native,
)
from tfjit.kernels.source import KernelSource, Source

KINDS: Final = {"float32": "f32", "float64": "f64"}
"""Kinds of the variables that have compiled updates, by dtype."""
_CASTS: Final = {"f32": "vm.float32", "f64": "vm.float64"}
_MIN_CHUNK: Final = 4096  # elements


@dataclass(frozen=True, slots=True)
class Update:
    """One optimizer's rule.

    inputs: the op's inputs in order: "*name" is a variable or slot that is written, "name" a
    scalar, "name#" an int64 scalar, "name[]" an array. setup: lines before the loop, over scalars.
    body: lines of the loop; a written name holds its old value first and its new one at the end.
    {T} is the dtype's cast, {k} its vector-math suffix; sign(x) is x for zero and NaN; root(x) is
    x ** -power, which for the usual power, -0.5, is a square root. flag: a bool attr that selects
    `alternative` instead of body.
    """

    inputs: str
    body: str
    setup: str = ""
    flag: str = ""
    alternative: str = ""


UPDATES: Final[dict[str, Update]] = {
    "GradientDescent": Update("*var alpha delta[]", "var = var - alpha * delta"),
    "Momentum": Update(
        "*var *accum lr grad[] momentum",
        "accum = accum * momentum + grad; var = var - accum * lr",
        flag="use_nesterov",
        alternative="accum = accum * momentum + grad; var = var - (grad * lr + accum * momentum * "
        "lr)",
    ),
    "KerasMomentum": Update(
        "*var *accum lr grad[] momentum",
        "accum = accum * momentum - grad * lr; var = var + accum",
        flag="use_nesterov",
        alternative="accum = accum * momentum - grad * lr; var = var + (accum * momentum - grad * "
        "lr)",
    ),
    "Adam": Update(
        "*var *m *v beta1_power beta2_power lr beta1 beta2 epsilon grad[]",
        "m = m + (grad - m) * rest1; v = v + (grad * grad - v) * rest2; var = var - (m * alpha) / "
        "(vm.sqrt_{k}(v) + epsilon)",
        setup="alpha = lr * vm.sqrt_{k}({T}(1) - beta2_power) / ({T}(1) - beta1_power); rest1 = "
        "{T}(1) - beta1; rest2 = {T}(1) - beta2",
        flag="use_nesterov",
        alternative=(
            "m = m + (grad - m) * rest1; v = v + (grad * grad - v) * rest2; "
            "var = var - ((grad * rest1 + beta1 * m) * alpha) / (vm.sqrt_{k}(v) + epsilon)"
        ),
    ),
    "AdaMax": Update(
        "*var *m *v beta1_power lr beta1 beta2 epsilon grad[]",
        "m = m + (grad - m) * rest1; v = max(beta2 * v, abs(grad)); var = var - alpha * (m / (v + "
        "epsilon))",
        setup="alpha = lr / ({T}(1) - beta1_power); rest1 = {T}(1) - beta1",
    ),
    "RMSProp": Update(
        "*var *ms *mom lr rho momentum epsilon grad[]",
        "ms = ms + (grad * grad - ms) * rest; mom = mom * momentum + (grad * lr) / vm.sqrt_{k}(ms "
        "+ epsilon); var = var - mom",
        setup="rest = {T}(1) - rho",
    ),
    "CenteredRMSProp": Update(
        "*var *mg *ms *mom lr rho momentum epsilon grad[]",
        "ms = ms + (grad * grad - ms) * rest; mg = mg + (grad - mg) * rest; "
        "mom = mom * momentum + (grad * lr) / vm.sqrt_{k}((ms - mg * mg) + epsilon); var = var - "
        "mom",
        setup="rest = {T}(1) - rho",
    ),
    "Adadelta": Update(
        "*var *accum *accum_update lr rho epsilon grad[]",
        "accum = accum * rho + grad * grad * rest; change = vm.sqrt_{k}(accum_update + epsilon) * "
        "vm.rsqrt_{k}(accum + epsilon) * grad; "
        "var = var - change * lr; accum_update = accum_update * rho + change * change * rest",
        setup="rest = {T}(1) - rho",
    ),
    "Adagrad": Update(
        "*var *accum lr grad[]",
        "var = var - grad * lr * vm.rsqrt_{k}(accum)",
        flag="update_slots",
        alternative="accum = accum + grad * grad; var = var - grad * lr * vm.rsqrt_{k}(accum)",
    ),
    "AdagradV2": Update(
        "*var *accum lr epsilon grad[]",
        "var = var - grad * lr / (vm.sqrt_{k}(accum) + epsilon)",
        flag="update_slots",
        alternative="accum = accum + grad * grad; var = var - grad * lr / (vm.sqrt_{k}(accum) + "
        "epsilon)",
    ),
}

# The proximal step from `step` with a rate: with l1 the step shrinks towards zero.
_PROXIMAL: Final = (
    "least = abs(step) - rate * l1; "
    "shrunk = sign(step) * select(least > {T}(0), least, {T}(0)); "
    "var = select(l1 > {T}(0), shrunk, step) / ({T}(1) + rate * l2)"
)
UPDATES["ProximalGradientDescent"] = Update(
    "*var alpha l1 l2 delta[]", f"step = var - alpha * delta; rate = alpha; {_PROXIMAL}"
)
UPDATES["ProximalAdagrad"] = Update(
    "*var *accum lr l1 l2 grad[]",
    "accum = accum + grad * grad; rate = lr * vm.rsqrt_{k}(accum); step = var - grad * rate; "
    + _PROXIMAL,
)
UPDATES["AdagradDA"] = Update(
    "*var *sums *squares grad[] lr l1 l2 global_step#",
    "sums = sums + grad; squares = squares + grad * grad; least = abs(sums) - l1 * global_step; "
    "shrunk = sign(sums) * select(least > {T}(0), least, {T}(0)); "
    "var = -lr * select(l1 > {T}(0), shrunk, sums) / (l2 * global_step * lr + "
    "vm.sqrt_{k}(squares))",
)

# The linear term grows by `shrunk`; past the threshold the variable is pulled towards it, otherwise
# it is exactly zero.
_FTRL: Final = (
    "grown = accum + grad * grad; before = root(accum); after = root(grown); "
    "linear = linear + shrunk - (after - before) / lr * var; threshold = l1; scale = after / lr + "
    "two * l2; accum = grown; "
    "var = select(abs(linear) > threshold, (select(linear > {T}(0), threshold, -threshold) - "
    "linear) / scale, {T}(0))"
)
_FTRL_BY_LR: Final = _FTRL.replace(
    "shrunk - (after - before) / lr * var; threshold = l1; scale = after / lr + two * l2;",
    "shrunk * lr - (after - before) * var; threshold = l1 * lr; scale = after + two * l2 * lr;",
)
for _name, _scalars, _shrunk in (
    ("Ftrl", "", "grad"),
    ("FtrlV2", "shrinkage ", "(grad + two * shrinkage * var)"),
):
    UPDATES[_name] = Update(
        f"*var *accum *linear grad[] lr l1 l2 {_scalars}power",
        _FTRL.replace("shrunk", _shrunk),
        setup="two = {T}(2)",
        flag="multiply_linear_by_lr",
        alternative=_FTRL_BY_LR.replace("shrunk", _shrunk),
    )


def body_lines(update: Update, kind: str, flag: bool, square_root: bool) -> list[str]:
    """Return the lines of a rule's loop.

    square_root: the meaning of root(x).
    """
    body = update.alternative if flag else update.body
    body = re.sub(
        r"root\((\w+)\)", r"vm.sqrt_{k}(\1)" if square_root else r"vm.pow_{k}(\1, -power)", body
    )
    # Zero and NaN are their own sign.
    body = re.sub(
        r"sign\((\w+)\)", r"select(\1 > {T}(0), {T}(1), select(\1 < {T}(0), {T}(-1), \1))", body
    )
    return body.format(T=_CASTS[kind], k=kind).split("; ")


def write_scalars(source: Source, update: Update, kind: str, addresses: Mapping[str, str]) -> None:
    """Load a rule's scalars and compute its setup.

    addresses: expressions by input name.
    """
    for role in update.inputs.split():
        name = role.strip("*[]#")
        if role.endswith("#"):
            source.line(f"{name} = {_CASTS[kind]}(ld(ptr_i64({addresses[name]}), 0))")
        elif role == name:
            source.line(f"{name} = ld(ptr_{kind}({addresses[name]}), 0)")
    for line in filter(None, update.setup.format(T=_CASTS[kind], k=kind).split("; ")):
        source.line(line)


def written_names(update: Update) -> list[str]:
    """Return the variable and the slots of a rule."""
    return [role.strip("*") for role in update.inputs.split() if role.startswith("*")]


def input_names(update: Update) -> list[str]:
    """Return the names of a rule's inputs."""
    return [role.strip("*[]#") for role in update.inputs.split()]


def array_names(update: Update) -> list[str]:
    """Return the inputs of a rule that are read as arrays."""
    return [
        role.strip("*[]")
        for role in update.inputs.split()
        if role.startswith("*") or role.endswith("[]")
    ]


def write_body(source: Source, update: Update, lines: Sequence[str], repeats: bool = False) -> None:
    """Write the rule for element `i` of the arrays `<name>_p`.

    repeats: an element may be updated several times.
    """
    written = written_names(update)
    for name in array_names(update):
        again = repeats and name in written
        source.line(
            f"{name} = "
            + (f"ld_out({name}_p, i, {written.index(name)})" if again else f"ld({name}_p, i)")
        )
    for line in lines:
        source.line(line)
    for k, name in enumerate(written):
        if any(line.split(" = ")[0] == name for line in lines):
            source.line(f"st_out({name}_p, i, {name}, {k})")


def update_source(
    name: str, update: Update, kind: str, flag: bool, square_root: bool = False
) -> KernelSource:
    """Write the kernel of one rule and dtype.

    Argument words: number of elements, then the address of each input. square_root: the meaning of
    root(x) in the rule.
    """
    source = Source()
    size = 4 if kind == "f32" else 8
    source.line("from tfjit.kernels import vmath as vm")
    names = f"ld, ptr_i64, ptr_{kind}, select, st_out, word"
    source.line(f"from tfjit.kernels.codegen.intrinsics import {names}")
    source.line()
    source.line()
    words = {plain: f"word(args, {3 + i})" for i, plain in enumerate(input_names(update))}
    with source.block("def kernel(args, chunk, nchunks):"):
        source.line("n = word(args, 2)")
        source.line("lo = n * chunk // nchunks")
        source.line("count = n * (chunk + 1) // nchunks - lo")
        for plain in array_names(update):
            source.line(f"{plain}_p = ptr_{kind}({words[plain]} + {size} * lo)")
        write_scalars(source, update, kind, words)
        with source.block("for i in range(count):"):
            write_body(source, update, body_lines(update, kind, flag, square_root))
    return KernelSource(
        source.text(),
        title=f"{name} update {kind}{' ' + update.flag if flag and update.flag else ''}",
        module=__name__,
    )


def has_flag(update: Update, node: NodeSpec) -> bool:
    """Return whether a node's attrs select the alternative rule."""
    return bool(update.flag) and bool(node.attrs.get(update.flag, update.flag == "update_slots"))


def has_square_root(update: Update, node: NodeSpec, after_gradient: int = 0) -> bool:
    """Return whether root(x) is a square root, as for the usual power.

    after_gradient: number of the node's inputs behind the gradient that the rule does not name.
    """
    roles = update.inputs.split()
    power = node.constants.get(roles.index("power") + after_gradient) if "power" in roles else None
    return power is not None and float(power) == -0.5


def variable_kind(update: Update, node: NodeSpec) -> str:
    """Return the kind of an update's variable, of `KINDS`.

    Raises Unsupported for other dtypes, and for inputs that have another shape than the variable.
    """
    var = node.inputs[0]
    kind = KINDS.get(var.dtype.name)
    if kind is None:
        raise Unsupported(f"{node.op} of {var.dtype.name} has no compiled form")
    for role, tensor in zip(update.inputs.split(), node.inputs, strict=True):
        whole = role.startswith("*") or role.endswith("[]")
        if tensor.shape != (var.shape if whole else ()):
            raise Unsupported(
                f"{node.op}: {role.strip('*[]#')} has shape {list(tensor.shape)}, the variable "
                f"{list(var.shape)}"
            )
    return kind


def bytes_moved(update: Update, var: TensorSpec) -> int:
    """Return the bytes that an update reads and writes."""
    roles = update.inputs.split()
    written = sum(1 for role in roles if role.startswith("*"))
    return var.nbytes * (2 * written + sum(1 for role in roles if role.endswith("[]")))


def _builder(name: str, update: Update) -> Callable[[NodeSpec], NativeCall]:
    def build(node: NodeSpec) -> NativeCall:
        var, kind = node.inputs[0], variable_kind(update, node)
        flag, square_root = has_flag(update, node), has_square_root(update, node)
        source = update_source(name, update, kind, flag, square_root)
        words: tuple[Word, ...] = (var.size, *(Pointer("in", i) for i in range(len(node.inputs))))
        moved = bytes_moved(update, var)
        cost = FIXED_NS + traffic_ns(moved) + 0.3 * var.size * (1 if kind == "f32" else 2)
        launch = Launch(
            source, words, chunks=chunks_for(cost, max(1, var.size // _MIN_CHUNK)), cost_ns=cost
        )
        return NativeCall((launch,), bytes_moved=moved, flops=8 * var.size)

    return build


for _name, _update in UPDATES.items():
    if _name != "KerasMomentum":
        native(f"Apply{_name}")(_builder(_name, _update))
    native(f"ResourceApply{_name}")(_builder(_name, _update))
