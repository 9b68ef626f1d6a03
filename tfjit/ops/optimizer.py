"""Optimizer updates of variables, dense and sparse."""

from __future__ import annotations

from tfjit.ops.declare import register_op
from tfjit.ops.type_lists import INDEX

register_op(
    "ApplyAdadelta",
    inputs=("var: Ref(T)", "accum: Ref(T)", "accum_update: Ref(T)", "lr: T", "rho: T", "epsilon: T", "grad: T"),
    outputs=("out: Ref(T)",),
    attrs=("T: numbertype", "use_locking: bool = false"),
)
register_op(
    "ApplyAdagrad",
    inputs=("var: Ref(T)", "accum: Ref(T)", "lr: T", "grad: T"),
    outputs=("out: Ref(T)",),
    attrs=("T: numbertype", "use_locking: bool = false", "update_slots: bool = true"),
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
)
register_op(
    "ApplyAdagradV2",
    inputs=("var: Ref(T)", "accum: Ref(T)", "lr: T", "epsilon: T", "grad: T"),
    outputs=("out: Ref(T)",),
    attrs=("T: numbertype", "use_locking: bool = false", "update_slots: bool = true"),
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
)
register_op(
    "ApplyAdaMax",
    inputs=("var: Ref(T)", "m: Ref(T)", "v: Ref(T)", "beta1_power: T", "lr: T", "beta1: T", "beta2: T", "epsilon: T", "grad: T"),
    outputs=("out: Ref(T)",),
    attrs=("T: numbertype", "use_locking: bool = false"),
)
register_op(
    "ApplyAddSign",
    inputs=("var: Ref(T)", "m: Ref(T)", "lr: T", "alpha: T", "sign_decay: T", "beta: T", "grad: T"),
    outputs=("out: Ref(T)",),
    attrs=("T: numbertype", "use_locking: bool = false"),
)
register_op(
    "ApplyCenteredRMSProp",
    inputs=("var: Ref(T)", "mg: Ref(T)", "ms: Ref(T)", "mom: Ref(T)", "lr: T", "rho: T", "momentum: T", "epsilon: T", "grad: T"),
    outputs=("out: Ref(T)",),
    attrs=("T: numbertype", "use_locking: bool = false"),
)
register_op(
    "ApplyFtrl",
    inputs=("var: Ref(T)", "accum: Ref(T)", "linear: Ref(T)", "grad: T", "lr: T", "l1: T", "l2: T", "lr_power: T"),
    outputs=("out: Ref(T)",),
    attrs=("T: numbertype", "use_locking: bool = false", "multiply_linear_by_lr: bool = false"),
)
register_op(
    "ApplyFtrlV2",
    inputs=("var: Ref(T)", "accum: Ref(T)", "linear: Ref(T)", "grad: T", "lr: T", "l1: T", "l2: T", "l2_shrinkage: T", "lr_power: T"),
    outputs=("out: Ref(T)",),
    attrs=("T: numbertype", "use_locking: bool = false", "multiply_linear_by_lr: bool = false"),
)
register_op(
    "ApplyGradientDescent",
    inputs=("var: Ref(T)", "alpha: T", "delta: T"),
    outputs=("out: Ref(T)",),
    attrs=("T: numbertype", "use_locking: bool = false"),
)
register_op(
    "ApplyMomentum",
    inputs=("var: Ref(T)", "accum: Ref(T)", "lr: T", "grad: T", "momentum: T"),
    outputs=("out: Ref(T)",),
    attrs=("T: numbertype", "use_locking: bool = false", "use_nesterov: bool = false"),
)
register_op(
    "ApplyPowerSign",
    inputs=("var: Ref(T)", "m: Ref(T)", "lr: T", "logbase: T", "sign_decay: T", "beta: T", "grad: T"),
    outputs=("out: Ref(T)",),
    attrs=("T: numbertype", "use_locking: bool = false"),
)
register_op(
    "ApplyProximalAdagrad",
    inputs=("var: Ref(T)", "accum: Ref(T)", "lr: T", "l1: T", "l2: T", "grad: T"),
    outputs=("out: Ref(T)",),
    attrs=("T: numbertype", "use_locking: bool = false"),
)
register_op(
    "ApplyProximalGradientDescent",
    inputs=("var: Ref(T)", "alpha: T", "l1: T", "l2: T", "delta: T"),
    outputs=("out: Ref(T)",),
    attrs=("T: numbertype", "use_locking: bool = false"),
)
register_op(
    "ApplyRMSProp",
    inputs=("var: Ref(T)", "ms: Ref(T)", "mom: Ref(T)", "lr: T", "rho: T", "momentum: T", "epsilon: T", "grad: T"),
    outputs=("out: Ref(T)",),
    attrs=("T: numbertype", "use_locking: bool = false"),
)
register_op(
    "ResourceApplyAdadelta",
    inputs=("var: resource", "accum: resource", "accum_update: resource", "lr: T", "rho: T", "epsilon: T", "grad: T"),
    attrs=("T: numbertype", "use_locking: bool = false"),
    stateful=True,
)
register_op(
    "ResourceApplyAdagrad",
    inputs=("var: resource", "accum: resource", "lr: T", "grad: T"),
    attrs=("T: numbertype", "use_locking: bool = false", "update_slots: bool = true"),
    stateful=True,
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
)
register_op(
    "ResourceApplyAdagradV2",
    inputs=("var: resource", "accum: resource", "lr: T", "epsilon: T", "grad: T"),
    attrs=("T: numbertype", "use_locking: bool = false", "update_slots: bool = true"),
    stateful=True,
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
)
register_op(
    "ResourceApplyAdaMax",
    inputs=("var: resource", "m: resource", "v: resource", "beta1_power: T", "lr: T", "beta1: T", "beta2: T", "epsilon: T", "grad: T"),
    attrs=("T: numbertype", "use_locking: bool = false"),
    stateful=True,
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
)
register_op(
    "ResourceApplyAddSign",
    inputs=("var: resource", "m: resource", "lr: T", "alpha: T", "sign_decay: T", "beta: T", "grad: T"),
    attrs=("T: numbertype", "use_locking: bool = false"),
    stateful=True,
)
register_op(
    "ResourceApplyCenteredRMSProp",
    inputs=("var: resource", "mg: resource", "ms: resource", "mom: resource", "lr: T", "rho: T", "momentum: T", "epsilon: T", "grad: T"),
    attrs=("T: numbertype", "use_locking: bool = false"),
    stateful=True,
)
register_op(
    "ResourceApplyFtrl",
    inputs=("var: resource", "accum: resource", "linear: resource", "grad: T", "lr: T", "l1: T", "l2: T", "lr_power: T"),
    attrs=("T: numbertype", "use_locking: bool = false", "multiply_linear_by_lr: bool = false"),
    stateful=True,
)
register_op(
    "ResourceApplyFtrlV2",
    inputs=("var: resource", "accum: resource", "linear: resource", "grad: T", "lr: T", "l1: T", "l2: T", "l2_shrinkage: T", "lr_power: T"),
    attrs=("T: numbertype", "use_locking: bool = false", "multiply_linear_by_lr: bool = false"),
    stateful=True,
)
register_op(
    "ResourceApplyGradientDescent",
    inputs=("var: resource", "alpha: T", "delta: T"),
    attrs=("T: numbertype", "use_locking: bool = false"),
    stateful=True,
)
register_op(
    "ResourceApplyKerasMomentum",
    inputs=("var: resource", "accum: resource", "lr: T", "grad: T", "momentum: T"),
    attrs=("T: numbertype", "use_locking: bool = false", "use_nesterov: bool = false"),
    stateful=True,
)
register_op(
    "ResourceApplyMomentum",
    inputs=("var: resource", "accum: resource", "lr: T", "grad: T", "momentum: T"),
    attrs=("T: numbertype", "use_locking: bool = false", "use_nesterov: bool = false"),
    stateful=True,
)
register_op(
    "ResourceApplyPowerSign",
    inputs=("var: resource", "m: resource", "lr: T", "logbase: T", "sign_decay: T", "beta: T", "grad: T"),
    attrs=("T: numbertype", "use_locking: bool = false"),
    stateful=True,
)
register_op(
    "ResourceApplyProximalAdagrad",
    inputs=("var: resource", "accum: resource", "lr: T", "l1: T", "l2: T", "grad: T"),
    attrs=("T: numbertype", "use_locking: bool = false"),
    stateful=True,
)
register_op(
    "ResourceApplyProximalGradientDescent",
    inputs=("var: resource", "alpha: T", "l1: T", "l2: T", "delta: T"),
    attrs=("T: numbertype", "use_locking: bool = false"),
    stateful=True,
)
register_op(
    "ResourceApplyRMSProp",
    inputs=("var: resource", "ms: resource", "mom: resource", "lr: T", "rho: T", "momentum: T", "epsilon: T", "grad: T"),
    attrs=("T: numbertype", "use_locking: bool = false"),
    stateful=True,
)
register_op(
    "ResourceSparseApplyAdadelta",
    inputs=("var: resource", "accum: resource", "accum_update: resource", "lr: T", "rho: T", "epsilon: T", "grad: T", "indices: Tindices"),
    attrs=("T: numbertype", f"Tindices: {INDEX}", "use_locking: bool = false"),
    stateful=True,
)
register_op(
    "ResourceSparseApplyAdagrad",
    inputs=("var: resource", "accum: resource", "lr: T", "grad: T", "indices: Tindices"),
    attrs=("T: numbertype", f"Tindices: {INDEX}", "use_locking: bool = false", "update_slots: bool = true"),
    stateful=True,
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
)
register_op(
    "ResourceSparseApplyAdagradV2",
    inputs=("var: resource", "accum: resource", "lr: T", "epsilon: T", "grad: T", "indices: Tindices"),
    attrs=("T: numbertype", f"Tindices: {INDEX}", "use_locking: bool = false", "update_slots: bool = true"),
    stateful=True,
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
    attrs=("T: numbertype", f"Tindices: {INDEX}", "use_locking: bool = false", "multiply_linear_by_lr: bool = false"),
    stateful=True,
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
    attrs=("T: numbertype", f"Tindices: {INDEX}", "use_locking: bool = false", "multiply_linear_by_lr: bool = false"),
    stateful=True,
)
register_op(
    "ResourceSparseApplyKerasMomentum",
    inputs=("var: resource", "accum: resource", "lr: T", "grad: T", "indices: Tindices", "momentum: T"),
    attrs=("T: numbertype", f"Tindices: {INDEX}", "use_locking: bool = false", "use_nesterov: bool = false"),
    stateful=True,
)
register_op(
    "ResourceSparseApplyMomentum",
    inputs=("var: resource", "accum: resource", "lr: T", "grad: T", "indices: Tindices", "momentum: T"),
    attrs=("T: numbertype", f"Tindices: {INDEX}", "use_locking: bool = false", "use_nesterov: bool = false"),
    stateful=True,
)
register_op(
    "ResourceSparseApplyProximalAdagrad",
    inputs=("var: resource", "accum: resource", "lr: T", "l1: T", "l2: T", "grad: T", "indices: Tindices"),
    attrs=("T: numbertype", f"Tindices: {INDEX}", "use_locking: bool = false"),
    stateful=True,
)
register_op(
    "ResourceSparseApplyProximalGradientDescent",
    inputs=("var: resource", "alpha: T", "l1: T", "l2: T", "grad: T", "indices: Tindices"),
    attrs=("T: numbertype", f"Tindices: {INDEX}", "use_locking: bool = false"),
    stateful=True,
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
)
register_op(
    "SparseApplyAdadelta",
    inputs=("var: Ref(T)", "accum: Ref(T)", "accum_update: Ref(T)", "lr: T", "rho: T", "epsilon: T", "grad: T", "indices: Tindices"),
    outputs=("out: Ref(T)",),
    attrs=("T: numbertype", f"Tindices: {INDEX}", "use_locking: bool = false"),
)
register_op(
    "SparseApplyAdagrad",
    inputs=("var: Ref(T)", "accum: Ref(T)", "lr: T", "grad: T", "indices: Tindices"),
    outputs=("out: Ref(T)",),
    attrs=("T: numbertype", f"Tindices: {INDEX}", "use_locking: bool = false", "update_slots: bool = true"),
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
)
register_op(
    "SparseApplyAdagradV2",
    inputs=("var: Ref(T)", "accum: Ref(T)", "lr: T", "epsilon: T", "grad: T", "indices: Tindices"),
    outputs=("out: Ref(T)",),
    attrs=("T: numbertype", f"Tindices: {INDEX}", "use_locking: bool = false", "update_slots: bool = true"),
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
)
register_op(
    "SparseApplyFtrl",
    inputs=("var: Ref(T)", "accum: Ref(T)", "linear: Ref(T)", "grad: T", "indices: Tindices", "lr: T", "l1: T", "l2: T", "lr_power: T"),
    outputs=("out: Ref(T)",),
    attrs=("T: numbertype", f"Tindices: {INDEX}", "use_locking: bool = false", "multiply_linear_by_lr: bool = false"),
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
    attrs=("T: numbertype", f"Tindices: {INDEX}", "use_locking: bool = false", "multiply_linear_by_lr: bool = false"),
)
register_op(
    "SparseApplyMomentum",
    inputs=("var: Ref(T)", "accum: Ref(T)", "lr: T", "grad: T", "indices: Tindices", "momentum: T"),
    outputs=("out: Ref(T)",),
    attrs=("T: numbertype", f"Tindices: {INDEX}", "use_locking: bool = false", "use_nesterov: bool = false"),
)
register_op(
    "SparseApplyProximalAdagrad",
    inputs=("var: Ref(T)", "accum: Ref(T)", "lr: T", "l1: T", "l2: T", "grad: T", "indices: Tindices"),
    outputs=("out: Ref(T)",),
    attrs=("T: numbertype", f"Tindices: {INDEX}", "use_locking: bool = false"),
)
register_op(
    "SparseApplyProximalGradientDescent",
    inputs=("var: Ref(T)", "alpha: T", "l1: T", "l2: T", "grad: T", "indices: Tindices"),
    outputs=("out: Ref(T)",),
    attrs=("T: numbertype", f"Tindices: {INDEX}", "use_locking: bool = false"),
)
register_op(
    "SparseApplyRMSProp",
    inputs=("var: Ref(T)", "ms: Ref(T)", "mom: Ref(T)", "lr: T", "rho: T", "momentum: T", "epsilon: T", "grad: T", "indices: Tindices"),
    outputs=("out: Ref(T)",),
    attrs=("T: numbertype", f"Tindices: {INDEX}", "use_locking: bool = false"),
)
