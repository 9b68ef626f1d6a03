"""Plausible inputs of optimizer updates, and their flags."""

from __future__ import annotations

from typing import Any

import numpy as np

from tfjit.framework.op_defs.op_registry import registry
from tfjit.kernels.cpu.reference.state.optimizer_updates import UPDATES

RNG = np.random.default_rng(5)
FLAGS = {
    "Momentum": ("use_nesterov",),
    "KerasMomentum": ("use_nesterov",),
    "Adam": ("use_nesterov",),
    "Adagrad": ("update_slots",),
    "AdagradV2": ("update_slots",),
    "Ftrl": ("multiply_linear_by_lr",),
    "FtrlV2": ("multiply_linear_by_lr",),
}


def arguments(
    op_type: str, kind: np.dtype[Any], shape: tuple[int, ...], indices: np.ndarray | None
) -> list[np.ndarray]:
    """Plausible inputs by the names that the op gives them."""
    out = []
    for i, arg in enumerate(registry.require(op_type).inputs):
        name = arg.name
        if i < UPDATES[rule_of(op_type)].slots:
            value = (
                RNG.standard_normal(shape)
                if i == 0 or name in ("m", "mom", "mg", "linear", "gradient_accumulator")
                else 0.5 + RNG.random(shape)
            )
            if name == "mg":
                value = value * 0.1
        elif name in ("grad", "delta"):
            value = RNG.standard_normal(shape if indices is None else (indices.size, *shape[1:]))
        elif name == "indices":
            assert indices is not None
            out.append(indices)
            continue
        elif name == "global_step":
            out.append(np.array(7, np.int64))
            continue
        else:
            value = np.array(
                {
                    "lr": 0.1,
                    "alpha": 0.1,
                    "beta1_power": 0.81,
                    "beta2_power": 0.9,
                    "beta1": 0.9,
                    "beta2": 0.99,
                    "rho": 0.9,
                    "momentum": 0.8,
                    "epsilon": 0.01,
                    "l1": 0.02,
                    "l2": 0.3,
                    "lr_power": -0.5,
                    "l2_shrinkage": 0.1,
                    "logbase": 1.3,
                    "sign_decay": 0.7,
                    "beta": 0.9,
                }[name]
            )
        out.append(np.asarray(value, kind))
    return out


def rule_of(op_type: str) -> str:
    """The rule of a dense or sparse update."""
    return op_type.removeprefix("Resource").removeprefix("Sparse").removeprefix("Apply")
