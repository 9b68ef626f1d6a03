"""Optimizer updates of variables, dense and sparse."""

from __future__ import annotations

from tfjit.framework.op_defs.shape_context import ShapeContext
from tfjit.framework.types.shape import Shape
from tfjit.ops.core.declare import register_op
from tfjit.ops.core.shape_rules import Rule, Shapes
from tfjit.ops.core.type_lists import INDEX


def _update(slots: int, scalars: str = "") -> Rule:
    """Dense update: inputs 0 .. slots - 1 are variables of one shape, `scalars` says what follows:
    s a scalar, g the gradient.
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
    """Sparse update: as `_update`, where g is followed by i, its row numbers: g has the variable's
    shape but for axis 0.
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
    """As the others, for variables behind handles: only the scalars can be checked."""

    def rule(c: ShapeContext) -> Shapes:
        for i, kind in enumerate(scalars, slots):
            if kind == "s":
                c.with_rank(i, 0)
            elif kind == "i":
                c.with_rank(i, 1)
        return []

    return rule


register_op(
    "ApplyAdadelta",
    inputs=(
        "var: Ref(T)",
        "accum: Ref(T)",
        "accum_update: Ref(T)",
        "lr: T",
        "rho: T",
        "epsilon: T",
        "grad: T",
    ),
    outputs=("out: Ref(T)",),
    attrs=("T: numbertype", "use_locking: bool = false"),
    shape=_update(3, "sssg"),
)
register_op(
    "ApplyAdagrad",
    inputs=("var: Ref(T)", "accum: Ref(T)", "lr: T", "grad: T"),
    outputs=("out: Ref(T)",),
    attrs=("T: numbertype", "use_locking: bool = false", "update_slots: bool = true"),
    shape=_update(2, "sg"),
)
register_op(
    "ApplyAdagradDA",
    inputs=(
        "var: Ref(T)",
        "gradient_accumulator: Ref(T)",
        "gradient_squared_accumulator: Ref(T)",
        "grad: T",
        "lr: T",
        "l1: T",
        "l2: T",
        "global_step: int64",
    ),
    outputs=("out: Ref(T)",),
    attrs=("T: numbertype", "use_locking: bool = false"),
    shape=_update(3, "gssss"),
)
register_op(
    "ApplyAdagradV2",
    inputs=("var: Ref(T)", "accum: Ref(T)", "lr: T", "epsilon: T", "grad: T"),
    outputs=("out: Ref(T)",),
    attrs=("T: numbertype", "use_locking: bool = false", "update_slots: bool = true"),
    shape=_update(2, "ssg"),
)
register_op(
    "ApplyAdam",
    inputs=(
        "var: Ref(T)",
        "m: Ref(T)",
        "v: Ref(T)",
        "beta1_power: T",
        "beta2_power: T",
        "lr: T",
        "beta1: T",
        "beta2: T",
        "epsilon: T",
        "grad: T",
    ),
    outputs=("out: Ref(T)",),
    attrs=("T: numbertype", "use_locking: bool = false", "use_nesterov: bool = false"),
    shape=_update(3, "ssssssg"),
)
register_op(
    "ApplyAdaMax",
    inputs=(
        "var: Ref(T)",
        "m: Ref(T)",
        "v: Ref(T)",
        "beta1_power: T",
        "lr: T",
        "beta1: T",
        "beta2: T",
        "epsilon: T",
        "grad: T",
    ),
    outputs=("out: Ref(T)",),
    attrs=("T: numbertype", "use_locking: bool = false"),
    shape=_update(3, "sssssg"),
)
register_op(
    "ApplyAddSign",
    inputs=("var: Ref(T)", "m: Ref(T)", "lr: T", "alpha: T", "sign_decay: T", "beta: T", "grad: T"),
    outputs=("out: Ref(T)",),
    attrs=("T: numbertype", "use_locking: bool = false"),
    shape=_update(2, "ssssg"),
)
register_op(
    "ApplyCenteredRMSProp",
    inputs=(
        "var: Ref(T)",
        "mg: Ref(T)",
        "ms: Ref(T)",
        "mom: Ref(T)",
        "lr: T",
        "rho: T",
        "momentum: T",
        "epsilon: T",
        "grad: T",
    ),
    outputs=("out: Ref(T)",),
    attrs=("T: numbertype", "use_locking: bool = false"),
    shape=_update(4, "ssssg"),
)
register_op(
    "ApplyFtrl",
    inputs=(
        "var: Ref(T)",
        "accum: Ref(T)",
        "linear: Ref(T)",
        "grad: T",
        "lr: T",
        "l1: T",
        "l2: T",
        "lr_power: T",
    ),
    outputs=("out: Ref(T)",),
    attrs=("T: numbertype", "use_locking: bool = false", "multiply_linear_by_lr: bool = false"),
    shape=_update(3, "gssss"),
)
register_op(
    "ApplyFtrlV2",
    inputs=(
        "var: Ref(T)",
        "accum: Ref(T)",
        "linear: Ref(T)",
        "grad: T",
        "lr: T",
        "l1: T",
        "l2: T",
        "l2_shrinkage: T",
        "lr_power: T",
    ),
    outputs=("out: Ref(T)",),
    attrs=("T: numbertype", "use_locking: bool = false", "multiply_linear_by_lr: bool = false"),
    shape=_update(3, "gsssss"),
)
register_op(
    "ApplyGradientDescent",
    inputs=("var: Ref(T)", "alpha: T", "delta: T"),
    outputs=("out: Ref(T)",),
    attrs=("T: numbertype", "use_locking: bool = false"),
    shape=_update(1, "sg"),
)
register_op(
    "ApplyMomentum",
    inputs=("var: Ref(T)", "accum: Ref(T)", "lr: T", "grad: T", "momentum: T"),
    outputs=("out: Ref(T)",),
    attrs=("T: numbertype", "use_locking: bool = false", "use_nesterov: bool = false"),
    shape=_update(2, "sgs"),
)
register_op(
    "ApplyPowerSign",
    inputs=(
        "var: Ref(T)",
        "m: Ref(T)",
        "lr: T",
        "logbase: T",
        "sign_decay: T",
        "beta: T",
        "grad: T",
    ),
    outputs=("out: Ref(T)",),
    attrs=("T: numbertype", "use_locking: bool = false"),
    shape=_update(2, "ssssg"),
)
register_op(
    "ApplyProximalAdagrad",
    inputs=("var: Ref(T)", "accum: Ref(T)", "lr: T", "l1: T", "l2: T", "grad: T"),
    outputs=("out: Ref(T)",),
    attrs=("T: numbertype", "use_locking: bool = false"),
    shape=_update(2, "sssg"),
)
register_op(
    "ApplyProximalGradientDescent",
    inputs=("var: Ref(T)", "alpha: T", "l1: T", "l2: T", "delta: T"),
    outputs=("out: Ref(T)",),
    attrs=("T: numbertype", "use_locking: bool = false"),
    shape=_update(1, "sssg"),
)
register_op(
    "ApplyRMSProp",
    inputs=(
        "var: Ref(T)",
        "ms: Ref(T)",
        "mom: Ref(T)",
        "lr: T",
        "rho: T",
        "momentum: T",
        "epsilon: T",
        "grad: T",
    ),
    outputs=("out: Ref(T)",),
    attrs=("T: numbertype", "use_locking: bool = false"),
    shape=_update(3, "ssssg"),
)
register_op(
    "ResourceApplyAdadelta",
    inputs=(
        "var: resource",
        "accum: resource",
        "accum_update: resource",
        "lr: T",
        "rho: T",
        "epsilon: T",
        "grad: T",
    ),
    attrs=("T: numbertype", "use_locking: bool = false"),
    stateful=True,
    shape=_resource_update(3, "sssg"),
)
register_op(
    "ResourceApplyAdagrad",
    inputs=("var: resource", "accum: resource", "lr: T", "grad: T"),
    attrs=("T: numbertype", "use_locking: bool = false", "update_slots: bool = true"),
    stateful=True,
    shape=_resource_update(2, "sg"),
)
register_op(
    "ResourceApplyAdagradDA",
    inputs=(
        "var: resource",
        "gradient_accumulator: resource",
        "gradient_squared_accumulator: resource",
        "grad: T",
        "lr: T",
        "l1: T",
        "l2: T",
        "global_step: int64",
    ),
    attrs=("T: numbertype", "use_locking: bool = false"),
    stateful=True,
    shape=_resource_update(3, "gssss"),
)
register_op(
    "ResourceApplyAdagradV2",
    inputs=("var: resource", "accum: resource", "lr: T", "epsilon: T", "grad: T"),
    attrs=("T: numbertype", "use_locking: bool = false", "update_slots: bool = true"),
    stateful=True,
    shape=_resource_update(2, "ssg"),
)
register_op(
    "ResourceApplyAdam",
    inputs=(
        "var: resource",
        "m: resource",
        "v: resource",
        "beta1_power: T",
        "beta2_power: T",
        "lr: T",
        "beta1: T",
        "beta2: T",
        "epsilon: T",
        "grad: T",
    ),
    attrs=("T: numbertype", "use_locking: bool = false", "use_nesterov: bool = false"),
    stateful=True,
    shape=_resource_update(3, "ssssssg"),
)
register_op(
    "ResourceApplyAdaMax",
    inputs=(
        "var: resource",
        "m: resource",
        "v: resource",
        "beta1_power: T",
        "lr: T",
        "beta1: T",
        "beta2: T",
        "epsilon: T",
        "grad: T",
    ),
    attrs=("T: numbertype", "use_locking: bool = false"),
    stateful=True,
    shape=_resource_update(3, "sssssg"),
)
register_op(
    "ResourceApplyAdamWithAmsgrad",
    inputs=(
        "var: resource",
        "m: resource",
        "v: resource",
        "vhat: resource",
        "beta1_power: T",
        "beta2_power: T",
        "lr: T",
        "beta1: T",
        "beta2: T",
        "epsilon: T",
        "grad: T",
    ),
    attrs=("T: numbertype", "use_locking: bool = false"),
    stateful=True,
    shape=_resource_update(4, "ssssssg"),
)
register_op(
    "ResourceApplyAddSign",
    inputs=(
        "var: resource",
        "m: resource",
        "lr: T",
        "alpha: T",
        "sign_decay: T",
        "beta: T",
        "grad: T",
    ),
    attrs=("T: numbertype", "use_locking: bool = false"),
    stateful=True,
    shape=_resource_update(2, "ssssg"),
)
register_op(
    "ResourceApplyCenteredRMSProp",
    inputs=(
        "var: resource",
        "mg: resource",
        "ms: resource",
        "mom: resource",
        "lr: T",
        "rho: T",
        "momentum: T",
        "epsilon: T",
        "grad: T",
    ),
    attrs=("T: numbertype", "use_locking: bool = false"),
    stateful=True,
    shape=_resource_update(4, "ssssg"),
)
register_op(
    "ResourceApplyFtrl",
    inputs=(
        "var: resource",
        "accum: resource",
        "linear: resource",
        "grad: T",
        "lr: T",
        "l1: T",
        "l2: T",
        "lr_power: T",
    ),
    attrs=("T: numbertype", "use_locking: bool = false", "multiply_linear_by_lr: bool = false"),
    stateful=True,
    shape=_resource_update(3, "gssss"),
)
register_op(
    "ResourceApplyFtrlV2",
    inputs=(
        "var: resource",
        "accum: resource",
        "linear: resource",
        "grad: T",
        "lr: T",
        "l1: T",
        "l2: T",
        "l2_shrinkage: T",
        "lr_power: T",
    ),
    attrs=("T: numbertype", "use_locking: bool = false", "multiply_linear_by_lr: bool = false"),
    stateful=True,
    shape=_resource_update(3, "gsssss"),
)
register_op(
    "ResourceApplyGradientDescent",
    inputs=("var: resource", "alpha: T", "delta: T"),
    attrs=("T: numbertype", "use_locking: bool = false"),
    stateful=True,
    shape=_resource_update(1, "sg"),
)
register_op(
    "ResourceApplyKerasMomentum",
    inputs=("var: resource", "accum: resource", "lr: T", "grad: T", "momentum: T"),
    attrs=("T: numbertype", "use_locking: bool = false", "use_nesterov: bool = false"),
    stateful=True,
    shape=_resource_update(2, "sgs"),
)
register_op(
    "ResourceApplyMomentum",
    inputs=("var: resource", "accum: resource", "lr: T", "grad: T", "momentum: T"),
    attrs=("T: numbertype", "use_locking: bool = false", "use_nesterov: bool = false"),
    stateful=True,
    shape=_resource_update(2, "sgs"),
)
register_op(
    "ResourceApplyPowerSign",
    inputs=(
        "var: resource",
        "m: resource",
        "lr: T",
        "logbase: T",
        "sign_decay: T",
        "beta: T",
        "grad: T",
    ),
    attrs=("T: numbertype", "use_locking: bool = false"),
    stateful=True,
    shape=_resource_update(2, "ssssg"),
)
register_op(
    "ResourceApplyProximalAdagrad",
    inputs=("var: resource", "accum: resource", "lr: T", "l1: T", "l2: T", "grad: T"),
    attrs=("T: numbertype", "use_locking: bool = false"),
    stateful=True,
    shape=_resource_update(2, "sssg"),
)
register_op(
    "ResourceApplyProximalGradientDescent",
    inputs=("var: resource", "alpha: T", "l1: T", "l2: T", "delta: T"),
    attrs=("T: numbertype", "use_locking: bool = false"),
    stateful=True,
    shape=_resource_update(1, "sssg"),
)
register_op(
    "ResourceApplyRMSProp",
    inputs=(
        "var: resource",
        "ms: resource",
        "mom: resource",
        "lr: T",
        "rho: T",
        "momentum: T",
        "epsilon: T",
        "grad: T",
    ),
    attrs=("T: numbertype", "use_locking: bool = false"),
    stateful=True,
    shape=_resource_update(3, "ssssg"),
)
register_op(
    "ResourceSparseApplyAdadelta",
    inputs=(
        "var: resource",
        "accum: resource",
        "accum_update: resource",
        "lr: T",
        "rho: T",
        "epsilon: T",
        "grad: T",
        "indices: Tindices",
    ),
    attrs=("T: numbertype", f"Tindices: {INDEX}", "use_locking: bool = false"),
    stateful=True,
    shape=_resource_update(3, "sssgi"),
)
register_op(
    "ResourceSparseApplyAdagrad",
    inputs=("var: resource", "accum: resource", "lr: T", "grad: T", "indices: Tindices"),
    attrs=(
        "T: numbertype",
        f"Tindices: {INDEX}",
        "use_locking: bool = false",
        "update_slots: bool = true",
    ),
    stateful=True,
    shape=_resource_update(2, "sgi"),
)
register_op(
    "ResourceSparseApplyAdagradDA",
    inputs=(
        "var: resource",
        "gradient_accumulator: resource",
        "gradient_squared_accumulator: resource",
        "grad: T",
        "indices: Tindices",
        "lr: T",
        "l1: T",
        "l2: T",
        "global_step: int64",
    ),
    attrs=("T: numbertype", f"Tindices: {INDEX}", "use_locking: bool = false"),
    stateful=True,
    shape=_resource_update(3, "gissss"),
)
register_op(
    "ResourceSparseApplyAdagradV2",
    inputs=(
        "var: resource",
        "accum: resource",
        "lr: T",
        "epsilon: T",
        "grad: T",
        "indices: Tindices",
    ),
    attrs=(
        "T: numbertype",
        f"Tindices: {INDEX}",
        "use_locking: bool = false",
        "update_slots: bool = true",
    ),
    stateful=True,
    shape=_resource_update(2, "ssgi"),
)
register_op(
    "ResourceSparseApplyCenteredRMSProp",
    inputs=(
        "var: resource",
        "mg: resource",
        "ms: resource",
        "mom: resource",
        "lr: T",
        "rho: T",
        "momentum: T",
        "epsilon: T",
        "grad: T",
        "indices: Tindices",
    ),
    attrs=("T: numbertype", f"Tindices: {INDEX}", "use_locking: bool = false"),
    stateful=True,
    shape=_resource_update(4, "ssssgi"),
)
register_op(
    "ResourceSparseApplyFtrl",
    inputs=(
        "var: resource",
        "accum: resource",
        "linear: resource",
        "grad: T",
        "indices: Tindices",
        "lr: T",
        "l1: T",
        "l2: T",
        "lr_power: T",
    ),
    attrs=(
        "T: numbertype",
        f"Tindices: {INDEX}",
        "use_locking: bool = false",
        "multiply_linear_by_lr: bool = false",
    ),
    stateful=True,
    shape=_resource_update(3, "gissss"),
)
register_op(
    "ResourceSparseApplyFtrlV2",
    inputs=(
        "var: resource",
        "accum: resource",
        "linear: resource",
        "grad: T",
        "indices: Tindices",
        "lr: T",
        "l1: T",
        "l2: T",
        "l2_shrinkage: T",
        "lr_power: T",
    ),
    attrs=(
        "T: numbertype",
        f"Tindices: {INDEX}",
        "use_locking: bool = false",
        "multiply_linear_by_lr: bool = false",
    ),
    stateful=True,
    shape=_resource_update(3, "gisssss"),
)
register_op(
    "ResourceSparseApplyKerasMomentum",
    inputs=(
        "var: resource",
        "accum: resource",
        "lr: T",
        "grad: T",
        "indices: Tindices",
        "momentum: T",
    ),
    attrs=(
        "T: numbertype",
        f"Tindices: {INDEX}",
        "use_locking: bool = false",
        "use_nesterov: bool = false",
    ),
    stateful=True,
    shape=_resource_update(2, "sgis"),
)
register_op(
    "ResourceSparseApplyMomentum",
    inputs=(
        "var: resource",
        "accum: resource",
        "lr: T",
        "grad: T",
        "indices: Tindices",
        "momentum: T",
    ),
    attrs=(
        "T: numbertype",
        f"Tindices: {INDEX}",
        "use_locking: bool = false",
        "use_nesterov: bool = false",
    ),
    stateful=True,
    shape=_resource_update(2, "sgis"),
)
register_op(
    "ResourceSparseApplyProximalAdagrad",
    inputs=(
        "var: resource",
        "accum: resource",
        "lr: T",
        "l1: T",
        "l2: T",
        "grad: T",
        "indices: Tindices",
    ),
    attrs=("T: numbertype", f"Tindices: {INDEX}", "use_locking: bool = false"),
    stateful=True,
    shape=_resource_update(2, "sssgi"),
)
register_op(
    "ResourceSparseApplyProximalGradientDescent",
    inputs=("var: resource", "alpha: T", "l1: T", "l2: T", "grad: T", "indices: Tindices"),
    attrs=("T: numbertype", f"Tindices: {INDEX}", "use_locking: bool = false"),
    stateful=True,
    shape=_resource_update(1, "sssgi"),
)
register_op(
    "ResourceSparseApplyRMSProp",
    inputs=(
        "var: resource",
        "ms: resource",
        "mom: resource",
        "lr: T",
        "rho: T",
        "momentum: T",
        "epsilon: T",
        "grad: T",
        "indices: Tindices",
    ),
    attrs=("T: numbertype", f"Tindices: {INDEX}", "use_locking: bool = false"),
    stateful=True,
    shape=_resource_update(3, "ssssgi"),
)
register_op(
    "SparseApplyAdadelta",
    inputs=(
        "var: Ref(T)",
        "accum: Ref(T)",
        "accum_update: Ref(T)",
        "lr: T",
        "rho: T",
        "epsilon: T",
        "grad: T",
        "indices: Tindices",
    ),
    outputs=("out: Ref(T)",),
    attrs=("T: numbertype", f"Tindices: {INDEX}", "use_locking: bool = false"),
    shape=_sparse_update(3, "sssgi"),
)
register_op(
    "SparseApplyAdagrad",
    inputs=("var: Ref(T)", "accum: Ref(T)", "lr: T", "grad: T", "indices: Tindices"),
    outputs=("out: Ref(T)",),
    attrs=(
        "T: numbertype",
        f"Tindices: {INDEX}",
        "use_locking: bool = false",
        "update_slots: bool = true",
    ),
    shape=_sparse_update(2, "sgi"),
)
register_op(
    "SparseApplyAdagradDA",
    inputs=(
        "var: Ref(T)",
        "gradient_accumulator: Ref(T)",
        "gradient_squared_accumulator: Ref(T)",
        "grad: T",
        "indices: Tindices",
        "lr: T",
        "l1: T",
        "l2: T",
        "global_step: int64",
    ),
    outputs=("out: Ref(T)",),
    attrs=("T: numbertype", f"Tindices: {INDEX}", "use_locking: bool = false"),
    shape=_sparse_update(3, "gissss"),
)
register_op(
    "SparseApplyAdagradV2",
    inputs=("var: Ref(T)", "accum: Ref(T)", "lr: T", "epsilon: T", "grad: T", "indices: Tindices"),
    outputs=("out: Ref(T)",),
    attrs=(
        "T: numbertype",
        f"Tindices: {INDEX}",
        "use_locking: bool = false",
        "update_slots: bool = true",
    ),
    shape=_sparse_update(2, "ssgi"),
)
register_op(
    "SparseApplyCenteredRMSProp",
    inputs=(
        "var: Ref(T)",
        "mg: Ref(T)",
        "ms: Ref(T)",
        "mom: Ref(T)",
        "lr: T",
        "rho: T",
        "momentum: T",
        "epsilon: T",
        "grad: T",
        "indices: Tindices",
    ),
    outputs=("out: Ref(T)",),
    attrs=("T: numbertype", f"Tindices: {INDEX}", "use_locking: bool = false"),
    shape=_sparse_update(4, "ssssgi"),
)
register_op(
    "SparseApplyFtrl",
    inputs=(
        "var: Ref(T)",
        "accum: Ref(T)",
        "linear: Ref(T)",
        "grad: T",
        "indices: Tindices",
        "lr: T",
        "l1: T",
        "l2: T",
        "lr_power: T",
    ),
    outputs=("out: Ref(T)",),
    attrs=(
        "T: numbertype",
        f"Tindices: {INDEX}",
        "use_locking: bool = false",
        "multiply_linear_by_lr: bool = false",
    ),
    shape=_sparse_update(3, "gissss"),
)
register_op(
    "SparseApplyFtrlV2",
    inputs=(
        "var: Ref(T)",
        "accum: Ref(T)",
        "linear: Ref(T)",
        "grad: T",
        "indices: Tindices",
        "lr: T",
        "l1: T",
        "l2: T",
        "l2_shrinkage: T",
        "lr_power: T",
    ),
    outputs=("out: Ref(T)",),
    attrs=(
        "T: numbertype",
        f"Tindices: {INDEX}",
        "use_locking: bool = false",
        "multiply_linear_by_lr: bool = false",
    ),
    shape=_sparse_update(3, "gisssss"),
)
register_op(
    "SparseApplyMomentum",
    inputs=("var: Ref(T)", "accum: Ref(T)", "lr: T", "grad: T", "indices: Tindices", "momentum: T"),
    outputs=("out: Ref(T)",),
    attrs=(
        "T: numbertype",
        f"Tindices: {INDEX}",
        "use_locking: bool = false",
        "use_nesterov: bool = false",
    ),
    shape=_sparse_update(2, "sgis"),
)
register_op(
    "SparseApplyProximalAdagrad",
    inputs=(
        "var: Ref(T)",
        "accum: Ref(T)",
        "lr: T",
        "l1: T",
        "l2: T",
        "grad: T",
        "indices: Tindices",
    ),
    outputs=("out: Ref(T)",),
    attrs=("T: numbertype", f"Tindices: {INDEX}", "use_locking: bool = false"),
    shape=_sparse_update(2, "sssgi"),
)
register_op(
    "SparseApplyProximalGradientDescent",
    inputs=("var: Ref(T)", "alpha: T", "l1: T", "l2: T", "grad: T", "indices: Tindices"),
    outputs=("out: Ref(T)",),
    attrs=("T: numbertype", f"Tindices: {INDEX}", "use_locking: bool = false"),
    shape=_sparse_update(1, "sssgi"),
)
register_op(
    "SparseApplyRMSProp",
    inputs=(
        "var: Ref(T)",
        "ms: Ref(T)",
        "mom: Ref(T)",
        "lr: T",
        "rho: T",
        "momentum: T",
        "epsilon: T",
        "grad: T",
        "indices: Tindices",
    ),
    outputs=("out: Ref(T)",),
    attrs=("T: numbertype", f"Tindices: {INDEX}", "use_locking: bool = false"),
    shape=_sparse_update(3, "ssssgi"),
)
