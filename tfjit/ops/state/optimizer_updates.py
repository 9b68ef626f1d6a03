"""Declare optimizer updates of variables, dense and sparse."""

from __future__ import annotations

from typing import Final, NamedTuple

from tfjit.framework.op_defs.op_traits import WRITES_ROWS
from tfjit.framework.op_defs.shape_context import ShapeContext
from tfjit.framework.types.shape import Shape
from tfjit.ops.core.declare import register_op
from tfjit.ops.core.shape_rules import Rule, Shapes
from tfjit.ops.core.type_lists import INDEX


def _update(slots: int, scalars: str = "") -> Rule:
    """Return the shape rule of a dense update.

    Inputs 0 .. slots - 1 are variables of one shape. `scalars` describes the inputs that follow: s
    a scalar, g the gradient.
    """

    def rule(c: ShapeContext) -> Shapes:
        shape: Shape = None
        for i in range(slots):
            shape = c.merge(shape, c.inputs[i])
        for i, kind in enumerate(scalars, slots):
            if kind == "s":
                c.with_rank(i, 0)
            else:
                shape = c.merge(shape, c.inputs[i])
        return [shape] * c.num_outputs

    return rule


def _sparse_update(slots: int, scalars: str = "") -> Rule:
    """Return the shape rule of a sparse update.

    As `_update`, where g is followed by i, its row numbers: g has the variable's shape but for axis
    0.
    """

    def rule(c: ShapeContext) -> Shapes:
        shape: Shape = None
        for i in range(slots):
            shape = c.merge(shape, c.inputs[i])
        for i, kind in enumerate(scalars, slots):
            if kind == "s":
                c.with_rank(i, 0)
            elif kind == "g":
                gradient = c.with_rank_at_least(i, 1)
                (rows,) = c.with_rank(i + 1, 1)
                if gradient is not None:
                    c.merge_dim(gradient[0], rows)
                    if shape is not None:
                        c.merge(shape[1:], gradient[1:])
        return [shape] * c.num_outputs

    return rule


def _resource_update(slots: int, scalars: str = "") -> Rule:
    """Return the shape rule of an update of variables behind handles.

    Only the scalars can be checked.
    """

    def rule(c: ShapeContext) -> Shapes:
        for i, kind in enumerate(scalars, slots):
            if kind == "s":
                c.with_rank(i, 0)
            elif kind == "i":
                c.with_rank(i, 1)
        return []

    return rule


class Update(NamedTuple):
    """An optimizer's update, from which up to four op types follow.

    slots: the variable and its slots. arguments: the scalars and the gradient in their order.
    attr: an attr besides T and use_locking. sparse: there are forms for rows of the variable.
    reference: there are forms for reference variables.
    """

    name: str
    slots: str
    arguments: str
    attr: str = ""
    sparse: bool = True
    reference: bool = True


_SLOTS: Final = "update_slots: bool = true"
_NESTEROV: Final = "use_nesterov: bool = false"
_LINEAR: Final = "multiply_linear_by_lr: bool = false"

UPDATES: Final = (
    Update("Adadelta", "var accum accum_update", "lr rho epsilon grad"),
    Update("Adagrad", "var accum", "lr grad", _SLOTS),
    Update(
        "AdagradDA",
        "var gradient_accumulator gradient_squared_accumulator",
        "grad lr l1 l2 global_step",
    ),
    Update("AdagradV2", "var accum", "lr epsilon grad", _SLOTS),
    Update(
        "Adam",
        "var m v",
        "beta1_power beta2_power lr beta1 beta2 epsilon grad",
        _NESTEROV,
        sparse=False,
    ),
    Update(
        "AdamWithAmsgrad",
        "var m v vhat",
        "beta1_power beta2_power lr beta1 beta2 epsilon grad",
        sparse=False,
        reference=False,
    ),
    Update("AdaMax", "var m v", "beta1_power lr beta1 beta2 epsilon grad", sparse=False),
    Update("AddSign", "var m", "lr alpha sign_decay beta grad", sparse=False),
    Update("CenteredRMSProp", "var mg ms mom", "lr rho momentum epsilon grad"),
    Update("Ftrl", "var accum linear", "grad lr l1 l2 lr_power", _LINEAR),
    Update("FtrlV2", "var accum linear", "grad lr l1 l2 l2_shrinkage lr_power", _LINEAR),
    Update("GradientDescent", "var", "alpha delta", sparse=False),
    Update("KerasMomentum", "var accum", "lr grad momentum", _NESTEROV, reference=False),
    Update("Momentum", "var accum", "lr grad momentum", _NESTEROV),
    Update("PowerSign", "var m", "lr logbase sign_decay beta grad", sparse=False),
    Update("ProximalAdagrad", "var accum", "lr l1 l2 grad"),
    Update("ProximalGradientDescent", "var", "alpha l1 l2 delta"),
    Update("RMSProp", "var ms mom", "lr rho momentum epsilon grad"),
)


def _declare(update: Update, *, resource: bool, sparse: bool) -> None:
    slots = update.slots.split()
    inputs = [f"{slot}: {'resource' if resource else 'Ref(T)'}" for slot in slots]
    kinds = ""
    for argument in update.arguments.split():
        if argument in ("grad", "delta"):
            inputs.append("grad: T" if sparse else f"{argument}: T")
            kinds += "g"
            if sparse:
                inputs.append("indices: Tindices")
                kinds += "i"
        else:
            inputs.append(f"{argument}: {'int64' if argument == 'global_step' else 'T'}")
            kinds += "s"
    attrs = ["T: numbertype", "use_locking: bool = false"]
    if sparse:
        attrs.insert(1, f"Tindices: {INDEX}")
    if update.attr:
        attrs.append(update.attr)
    rule = _resource_update if resource else _sparse_update if sparse else _update
    register_op(
        f"{'Resource' if resource else ''}{'Sparse' if sparse else ''}Apply{update.name}",
        inputs=tuple(inputs),
        outputs=() if resource else ("out: Ref(T)",),
        attrs=tuple(attrs),
        stateful=resource,
        shape=rule(len(slots), kinds),
        traits=WRITES_ROWS if sparse else 0,
    )


for _row in UPDATES:
    for _sparse in (False, True) if _row.sparse else (False,):
        _declare(_row, resource=True, sparse=_sparse)
        if _row.reference:
            _declare(_row, resource=False, sparse=_sparse)
