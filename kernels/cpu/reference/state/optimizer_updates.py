"""Update variables and slots in place, in NumPy.

The variables and slots are among the inputs. A rule sees views of the whole slots (dense), or
copies of distinct rows (sparse: a row that comes twice is updated twice).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from tfjit.kernels.cpu.reference.arrays.padded_rows import rows_in_use
from tfjit.kernels.cpu.reference.inputs import Arrays, invalid, shape_text
from tfjit.kernels.cpu.reference.rows import run_starts, stable_order
from tfjit.kernels.registry import NodeSpec, reference

Attrs = Mapping[str, Any]
# (slots, the variable first; scalars by the op's order; gradient; attrs): updates the slots
Rule = Callable[[Sequence[np.ndarray], Sequence[Any], np.ndarray, Attrs], None]


def _gradient_descent(
    slots: Sequence[np.ndarray], scalars: Sequence[Any], g: np.ndarray, attrs: Attrs
) -> None:
    (var,) = slots
    (alpha,) = scalars
    var -= alpha * g


def _proximal(var: np.ndarray, step: Any, rate: Any, l1: Any, l2: Any) -> None:
    """Set var to the proximal step from `step` with learning rate `rate`."""
    one = var.dtype.type(1)
    if l1 > 0:
        var[...] = (
            np.sign(step)
            * np.maximum(np.abs(step) - rate * l1, var.dtype.type(0))
            / (one + rate * l2)
        )
    else:
        var[...] = step / (one + rate * l2)


def _proximal_gradient_descent(
    slots: Sequence[np.ndarray], scalars: Sequence[Any], g: np.ndarray, attrs: Attrs
) -> None:
    (var,) = slots
    alpha, l1, l2 = scalars
    _proximal(var, var - alpha * g, alpha, l1, l2)


def _adadelta(
    slots: Sequence[np.ndarray], scalars: Sequence[Any], g: np.ndarray, attrs: Attrs
) -> None:
    var, accum, accum_update = slots
    lr, rho, epsilon = scalars
    rest = var.dtype.type(1) - rho
    accum[...] = accum * rho + g * g * rest
    update = np.sqrt(accum_update + epsilon) / np.sqrt(accum + epsilon) * g
    var -= update * lr
    accum_update[...] = accum_update * rho + update * update * rest


def _adagrad(
    slots: Sequence[np.ndarray], scalars: Sequence[Any], g: np.ndarray, attrs: Attrs
) -> None:
    var, accum = slots
    (lr,) = scalars
    if attrs.get("update_slots", True):
        accum += g * g
    var -= g * lr / np.sqrt(accum)


def _adagrad_v2(
    slots: Sequence[np.ndarray], scalars: Sequence[Any], g: np.ndarray, attrs: Attrs
) -> None:
    var, accum = slots
    lr, epsilon = scalars
    if attrs.get("update_slots", True):
        accum += g * g
    var -= g * lr / (np.sqrt(accum) + epsilon)


def _proximal_adagrad(
    slots: Sequence[np.ndarray], scalars: Sequence[Any], g: np.ndarray, attrs: Attrs
) -> None:
    var, accum = slots
    lr, l1, l2 = scalars
    accum += g * g
    rate = lr / np.sqrt(accum)
    _proximal(var, var - g * rate, rate, l1, l2)


def _adagrad_da(
    slots: Sequence[np.ndarray], scalars: Sequence[Any], g: np.ndarray, attrs: Attrs
) -> None:
    var, total, squares = slots
    lr, l1, l2, step = scalars
    step = var.dtype.type(step)
    total += g
    squares += g * g
    shrunk = (
        np.sign(total) * np.maximum(np.abs(total) - l1 * step, var.dtype.type(0))
        if l1 > 0
        else total
    )
    var[...] = -lr * shrunk / (l2 * step * lr + np.sqrt(squares))


def _ftrl_step(
    slots: Sequence[np.ndarray],
    lr: Any,
    l1: Any,
    l2: Any,
    power: Any,
    g: np.ndarray,
    shrunk: np.ndarray,
    by_lr: bool,
) -> None:
    var, accum, linear = slots
    two = var.dtype.type(2)
    grown = accum + g * g
    if power == -0.5:
        before, after = np.sqrt(accum), np.sqrt(grown)
    else:
        before, after = accum ** (-power), grown ** (-power)
    if by_lr:
        linear += shrunk * lr - (after - before) * var
        threshold, scale = l1 * lr, after + two * l2 * lr
    else:
        linear += shrunk - (after - before) / lr * var
        threshold, scale = l1, after / lr + two * l2
    # Past the threshold the variable is pulled towards it, otherwise it is exactly zero.
    var[...] = np.where(
        np.abs(linear) > threshold,
        (threshold * np.sign(linear) - linear) / scale,
        var.dtype.type(0),
    )
    accum[...] = grown


def _ftrl(slots: Sequence[np.ndarray], scalars: Sequence[Any], g: np.ndarray, attrs: Attrs) -> None:
    lr, l1, l2, power = scalars
    _ftrl_step(slots, lr, l1, l2, power, g, g, attrs.get("multiply_linear_by_lr", False))


def _ftrl_v2(
    slots: Sequence[np.ndarray], scalars: Sequence[Any], g: np.ndarray, attrs: Attrs
) -> None:
    lr, l1, l2, shrinkage, power = scalars
    shrunk = g + slots[0].dtype.type(2) * shrinkage * slots[0]
    _ftrl_step(slots, lr, l1, l2, power, g, shrunk, attrs.get("multiply_linear_by_lr", False))


def _momentum(
    slots: Sequence[np.ndarray], scalars: Sequence[Any], g: np.ndarray, attrs: Attrs
) -> None:
    var, accum = slots
    lr, momentum = scalars
    accum[...] = accum * momentum + g
    if attrs.get("use_nesterov", False):
        var -= g * lr + accum * momentum * lr
    else:
        var -= accum * lr


def _keras_momentum(
    slots: Sequence[np.ndarray], scalars: Sequence[Any], g: np.ndarray, attrs: Attrs
) -> None:
    var, accum = slots
    lr, momentum = scalars
    accum[...] = accum * momentum - g * lr
    if attrs.get("use_nesterov", False):
        var += accum * momentum - g * lr
    else:
        var += accum


def _adam_rate(dtype: np.dtype[Any], beta1_power: Any, beta2_power: Any, lr: Any) -> Any:
    one = dtype.type(1)
    return lr * np.sqrt(one - beta2_power) / (one - beta1_power)


def _adam(slots: Sequence[np.ndarray], scalars: Sequence[Any], g: np.ndarray, attrs: Attrs) -> None:
    var, m, v = slots
    beta1_power, beta2_power, lr, beta1, beta2, epsilon = scalars
    one = var.dtype.type(1)
    alpha = _adam_rate(var.dtype, beta1_power, beta2_power, lr)
    m += (g - m) * (one - beta1)
    v += (g * g - v) * (one - beta2)
    if attrs.get("use_nesterov", False):
        var -= ((g * (one - beta1) + beta1 * m) * alpha) / (np.sqrt(v) + epsilon)
    else:
        var -= (m * alpha) / (np.sqrt(v) + epsilon)


def _adam_amsgrad(
    slots: Sequence[np.ndarray], scalars: Sequence[Any], g: np.ndarray, attrs: Attrs
) -> None:
    var, m, v, highest = slots
    beta1_power, beta2_power, lr, beta1, beta2, epsilon = scalars
    one = var.dtype.type(1)
    alpha = _adam_rate(var.dtype, beta1_power, beta2_power, lr)
    m += (g - m) * (one - beta1)
    v += (g * g - v) * (one - beta2)
    highest[...] = np.maximum(highest, v)
    var -= (m * alpha) / (np.sqrt(highest) + epsilon)


def _adamax(
    slots: Sequence[np.ndarray], scalars: Sequence[Any], g: np.ndarray, attrs: Attrs
) -> None:
    var, m, v = slots
    beta1_power, lr, beta1, beta2, epsilon = scalars
    one = var.dtype.type(1)
    m += (g - m) * (one - beta1)
    v[...] = np.maximum(beta2 * v, np.abs(g))
    var -= lr / (one - beta1_power) * (m / (v + epsilon))


def _rms_prop(
    slots: Sequence[np.ndarray], scalars: Sequence[Any], g: np.ndarray, attrs: Attrs
) -> None:
    var, ms, mom = slots
    lr, rho, momentum, epsilon = scalars
    ms += (g * g - ms) * (var.dtype.type(1) - rho)
    mom[...] = mom * momentum + (g * lr) / np.sqrt(ms + epsilon)
    var -= mom


def _centered_rms_prop(
    slots: Sequence[np.ndarray], scalars: Sequence[Any], g: np.ndarray, attrs: Attrs
) -> None:
    var, mg, ms, mom = slots
    lr, rho, momentum, epsilon = scalars
    rest = var.dtype.type(1) - rho
    ms += (g * g - ms) * rest
    mg += (g - mg) * rest
    mom[...] = mom * momentum + (g * lr) / np.sqrt((ms - mg * mg) + epsilon)
    var -= mom


def _sign_agreement(m: np.ndarray, beta: Any, g: np.ndarray) -> np.ndarray:
    m[...] = m * beta + g * (m.dtype.type(1) - beta)
    return np.sign(g) * np.sign(m)


def _add_sign(
    slots: Sequence[np.ndarray], scalars: Sequence[Any], g: np.ndarray, attrs: Attrs
) -> None:
    var, m = slots
    lr, alpha, decay, beta = scalars
    var -= lr * (alpha + decay * _sign_agreement(m, beta, g)) * g


def _power_sign(
    slots: Sequence[np.ndarray], scalars: Sequence[Any], g: np.ndarray, attrs: Attrs
) -> None:
    var, m = slots
    lr, log_base, decay, beta = scalars
    var -= lr * np.exp(log_base * decay * _sign_agreement(m, beta, g)) * g


@dataclass(frozen=True, slots=True)
class Update:
    """Describe an update op's inputs.

    slots: the number of inputs that are written, the variable first; gradient: the number of the
    gradient's input (in the dense form).
    """

    slots: int
    gradient: int
    rule: Rule


UPDATES: Final[Mapping[str, Update]] = {
    "GradientDescent": Update(1, 2, _gradient_descent),
    "ProximalGradientDescent": Update(1, 4, _proximal_gradient_descent),
    "Adadelta": Update(3, 6, _adadelta),
    "Adagrad": Update(2, 3, _adagrad),
    "AdagradV2": Update(2, 4, _adagrad_v2),
    "ProximalAdagrad": Update(2, 5, _proximal_adagrad),
    "AdagradDA": Update(3, 3, _adagrad_da),
    "Ftrl": Update(3, 3, _ftrl),
    "FtrlV2": Update(3, 3, _ftrl_v2),
    "Momentum": Update(2, 3, _momentum),
    "KerasMomentum": Update(2, 3, _keras_momentum),
    "Adam": Update(3, 9, _adam),
    "AdamWithAmsgrad": Update(4, 10, _adam_amsgrad),
    "AdaMax": Update(3, 8, _adamax),
    "RMSProp": Update(3, 7, _rms_prop),
    "CenteredRMSProp": Update(4, 8, _centered_rms_prop),
    "AddSign": Update(2, 6, _add_sign),
    "PowerSign": Update(2, 6, _power_sign),
}
_DENSE_ONLY: Final = (
    "GradientDescent",
    "Adam",
    "AdamWithAmsgrad",
    "AdaMax",
    "AddSign",
    "PowerSign",
)
_RESOURCE_ONLY: Final = ("KerasMomentum", "AdamWithAmsgrad")


def _scalars(inputs: Arrays, skip: set[int]) -> list[Any]:
    out = []
    for i, value in enumerate(inputs):
        if i not in skip:
            if value.ndim:
                invalid(f"input {i} is not a scalar: {shape_text(value)}")
            out.append(value[()])
    return out


def _apply(update: Update, node: NodeSpec, inputs: Arrays) -> None:
    slots, gradient = inputs[: update.slots], inputs[update.gradient]
    for slot in slots:
        if slot.shape != gradient.shape:
            invalid(
                f"var and grad do not have the same shape{shape_text(slot)} {shape_text(gradient)}"
            )
    scalars = _scalars(inputs, {*range(update.slots), update.gradient})
    with np.errstate(all="ignore"):
        update.rule(slots, scalars, gradient, node.attrs)


def _sparse_apply(update: Update, node: NodeSpec, inputs: Arrays) -> None:
    slots, gradient, indices = (
        inputs[: update.slots],
        inputs[update.gradient],
        inputs[update.gradient + 1],
    )
    if indices.ndim != 1:
        invalid("indices must be one-dimensional")
    if gradient.shape[0] != indices.size:
        invalid("grad must be the same size as indices in the first dimension.")
    if gradient.shape[1:] != slots[0].shape[1:]:
        invalid(
            f"var and grad must match in dimension 1: {shape_text(slots[0])} {shape_text(gradient)}"
        )
    scalars = _scalars(inputs, {*range(update.slots), update.gradient, update.gradient + 1})
    indices = indices[: rows_in_use(node, indices)]
    faulty = np.flatnonzero((indices < 0) | (indices >= slots[0].shape[0]))
    count = int(faulty[0]) if faulty.size else indices.size
    with np.errstate(all="ignore"):
        for places in _distinct(indices[:count]):
            rows = indices[places]
            updated = [slot[rows] for slot in slots]
            update.rule(updated, scalars, gradient[places], node.attrs)
            for slot, values in zip(slots, updated, strict=True):
                slot[rows] = values
    if faulty.size:
        invalid(f"Index {indices[count]} at offset {count} in indices is out of range")


def _distinct(indices: np.ndarray) -> list[np.ndarray]:
    """Return sets of places whose indices are distinct.

    They are the places of first occurrences, of second ones, and of further ones.
    """
    if not indices.size:
        return []
    order = stable_order(indices)
    starts = run_starts([indices[order]], indices.size)
    occurrence = np.arange(indices.size)
    occurrence -= np.repeat(starts, np.diff(np.append(starts, indices.size)))
    ends = np.cumsum(np.bincount(occurrence))
    return np.split(order[stable_order(occurrence)], ends[:-1])


def _kernel(
    update: Update, step: Callable[[Update, NodeSpec, Arrays], None], by_reference: bool
) -> Callable[[NodeSpec, Arrays], Arrays]:
    def run(node: NodeSpec, inputs: Arrays) -> Arrays:
        step(update, node, inputs)
        return (inputs[0],) if by_reference else ()

    return run


for _name, _update in UPDATES.items():
    reference(f"ResourceApply{_name}")(_kernel(_update, _apply, False))
    if _name not in _RESOURCE_ONLY:
        reference(f"Apply{_name}")(_kernel(_update, _apply, True))
    if _name not in _DENSE_ONLY:
        reference(f"ResourceSparseApply{_name}")(_kernel(_update, _sparse_apply, False))
        if _name not in _RESOURCE_ONLY:
            reference(f"SparseApply{_name}")(_kernel(_update, _sparse_apply, True))
