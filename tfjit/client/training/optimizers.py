"""The optimizers of TensorFlow 1's tf.train.

Each is a thin cover over the operations that update a variable and its slots.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tfjit.client.training.optimizer import Optimizer
from tfjit.client.variables.initializers import Constant, Ones
from tfjit.client.variables.variables import Variable
from tfjit.framework.graphs.default_graph import (
    colocate_with,
    control_dependencies,
    get_default_graph,
)
from tfjit.framework.graphs.indexed_slices import IndexedSlices
from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.types import dtypes
from tfjit.ops import raw_ops as raw
from tfjit.ops.arithmetic.elementwise_functions import cast
from tfjit.ops.arrays.array import shape as shape_of
from tfjit.ops.arrays.creation import fill, ones, ones_like
from tfjit.ops.control_flow.control_flow import group
from tfjit.ops.core.convert import constant, convert_to_tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import DTypeLike, HyperparameterLike, InitializerLike


class _Fused(Optimizer):
    """An optimizer whose update is one operation.

    The operation is `<Kind>` of `Apply<Kind>`, `ResourceSparseApply<Kind>` and so on. _kind: that
    name. _slot_inputs: input of the operation -> slot. _hyper: input -> number, tensor or function
    without arguments. _gradient: the name of the gradient's input. _options: attrs.
    """

    _kind = ""
    _gradient = "grad"
    _slot_inputs: Mapping[str, str] = MappingProxyType({})

    def __init__(
        self,
        use_locking: bool,
        name: str,
        hyper: dict[str, Any],
        use_own_namescope_for_non_slot_vars: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(use_locking, name, use_own_namescope_for_non_slot_vars)
        self._hyper = hyper
        self._options = options
        self._tensors: dict[str, Tensor] = {}

    def _prepare(self) -> None:
        self._tensors = {
            key: convert_to_tensor(v() if callable(v) else v, name=key)
            for key, v in self._hyper.items()
        }

    def _slot_name(self, slot: str) -> str:
        """Return the scope that a slot's variable is named by."""
        return self._name

    def _create_slots(self, var_list: Sequence[Variable]) -> None:
        for var in var_list:
            for slot in self._slot_inputs.values():
                self._zeros_slot(var, slot, self._slot_name(slot))

    def _arguments(self, var: Variable, dtype: DTypeLike, *, is_resource: bool) -> dict[str, Any]:
        variables = {"var": var}
        for key, slot in self._slot_inputs.items():
            found = self.get_slot(var, slot)
            assert found is not None
            variables[key] = found
        arguments: dict[str, Any] = {
            key: v.handle if is_resource else v._ref()  # type: ignore[attr-defined]
            for key, v in variables.items()
        }
        for key, tensor in self._tensors.items():
            arguments[key] = (
                tensor
                if tensor.dtype.base_dtype in (dtype, dtypes.int64)
                else raw.Cast(x=tensor, DstT=dtype)
            )
        return {**arguments, **self._options, "use_locking": self._use_locking}

    def _apply_dense(self, grad: Tensor, var: Variable) -> Tensor | Operation:
        arguments = self._arguments(var, var.dtype.base_dtype, is_resource=False)
        return getattr(raw, f"Apply{self._kind}")(**arguments, **{self._gradient: grad}).op

    def _resource_apply_dense(self, grad: Tensor, handle: Variable) -> Tensor | Operation:
        arguments = self._arguments(handle, grad.dtype.base_dtype, is_resource=True)
        return getattr(raw, f"ResourceApply{self._kind}")(**arguments, **{self._gradient: grad})

    def _apply_sparse(self, grad: IndexedSlices, var: Variable) -> Tensor | Operation:
        arguments = self._arguments(var, var.dtype.base_dtype, is_resource=False)
        return getattr(raw, f"SparseApply{self._kind}")(
            **arguments, grad=grad.values, indices=grad.indices
        ).op

    def _resource_apply_sparse(
        self, grad: Tensor, handle: Variable, indices: Tensor
    ) -> Tensor | Operation:
        arguments = self._arguments(handle, grad.dtype.base_dtype, is_resource=True)
        return getattr(raw, f"ResourceSparseApply{self._kind}")(
            **arguments, grad=grad, indices=indices
        )


def _constant_like(variable: Variable, value: float) -> Tensor:
    """Return a constant of the variable's shape and dtype, placed with it."""
    with colocate_with(variable.op):
        return constant(value, dtype=variable.dtype.base_dtype, shape=variable.shape)


def _filled_like(variable: Variable, value: float) -> Tensor:
    """Return a tensor of the variable's shape during the run."""
    return cast(fill(shape_of(variable), value), variable.dtype.base_dtype)


class GradientDescentOptimizer(_Fused):
    """var -= learning_rate * gradient."""

    _kind = "GradientDescent"
    _gradient = "delta"

    def __init__(
        self,
        learning_rate: HyperparameterLike,
        use_locking: bool = False,
        name: str = "GradientDescent",
    ) -> None:
        super().__init__(use_locking, name, {"alpha": learning_rate})

    def _apply_sparse(self, grad: IndexedSlices, var: Variable) -> Tensor | Operation:
        step = grad.values * raw.Cast(x=self._tensors["alpha"], DstT=grad.values.dtype.base_dtype)
        return raw.ScatterSub(
            ref=var._ref(),
            indices=grad.indices,
            updates=step,
            use_locking=self._use_locking,
        ).op

    def _resource_apply_sparse(
        self, grad: Tensor, handle: Variable, indices: Tensor
    ) -> Tensor | Operation:
        step = -grad * raw.Cast(x=self._tensors["alpha"], DstT=grad.dtype.base_dtype)
        return raw.ResourceScatterAdd(resource=handle.handle, indices=indices, updates=step)  # type: ignore[attr-defined]


class MomentumOptimizer(_Fused):
    """accumulator = momentum * accumulator + gradient; var -= learning_rate * accumulator.

    Nesterov's look ahead is made on request.
    """

    _kind = "Momentum"
    _slot_inputs = MappingProxyType({"accum": "momentum"})

    def __init__(
        self,
        learning_rate: HyperparameterLike,
        momentum: HyperparameterLike,
        use_locking: bool = False,
        name: str = "Momentum",
        use_nesterov: bool = False,
    ) -> None:
        super().__init__(
            use_locking,
            name,
            {"lr": learning_rate, "momentum": momentum},
            use_nesterov=use_nesterov,
        )


class AdagradOptimizer(_Fused):
    """accumulator += gradient^2; var -= learning_rate * gradient / sqrt(accumulator).

    Source: Duchi, Hazan, Singer (2011). Raises ValueError for an initial_accumulator_value that is
    not above 0.
    """

    _kind = "Adagrad"
    _slot_inputs = MappingProxyType({"accum": "accumulator"})

    def __init__(
        self,
        learning_rate: HyperparameterLike,
        initial_accumulator_value: float = 0.1,
        use_locking: bool = False,
        name: str = "Adagrad",
    ) -> None:
        if initial_accumulator_value <= 0.0:
            raise ValueError(
                f"initial_accumulator_value must be positive: {initial_accumulator_value}"
            )
        super().__init__(use_locking, name, {"lr": learning_rate})
        self._start = initial_accumulator_value

    def _create_slots(self, var_list: Sequence[Variable]) -> None:
        for var in var_list:
            dtype = var.dtype.base_dtype
            start: InitializerLike = Constant(self._start, dtype)
            if not var.shape.is_fully_defined():
                start = partial(_filled_like, var, self._start)
            self._get_or_make_slot_with_initializer(
                var, start, var.shape, dtype, "accumulator", self._name
            )


class AdadeltaOptimizer(_Fused):
    """Steps scaled by running averages of squared gradients and squared steps.

    Source: Zeiler (2012).
    """

    _kind = "Adadelta"
    _slot_inputs = MappingProxyType({"accum": "accum", "accum_update": "accum_update"})

    def __init__(
        self,
        learning_rate: HyperparameterLike = 0.001,
        rho: object = 0.95,
        epsilon: HyperparameterLike = 1e-8,
        use_locking: bool = False,
        name: str = "Adadelta",
    ) -> None:
        super().__init__(use_locking, name, {"lr": learning_rate, "rho": rho, "epsilon": epsilon})


class RMSPropOptimizer(_Fused):
    """Steps scaled by a running average of squared gradients.

    The average is centered on request. Source: Tieleman and Hinton (2012).
    """

    _kind = "RMSProp"
    _slot_inputs = MappingProxyType({"ms": "rms", "mom": "momentum"})

    def __init__(
        self,
        learning_rate: HyperparameterLike,
        decay: HyperparameterLike = 0.9,
        momentum: HyperparameterLike = 0.0,
        epsilon: HyperparameterLike = 1e-10,
        use_locking: bool = False,
        centered: bool = False,
        name: str = "RMSProp",
    ) -> None:
        super().__init__(
            use_locking,
            name,
            {"lr": learning_rate, "rho": decay, "momentum": momentum, "epsilon": epsilon},
        )
        if centered:
            self._kind = "CenteredRMSProp"
            self._slot_inputs = MappingProxyType({"mg": "mg", **self._slot_inputs})

    def _create_slots(self, var_list: Sequence[Variable]) -> None:
        for var in var_list:
            if var.shape.is_fully_defined():
                start = Ones(var.dtype.base_dtype)
                self._get_or_make_slot_with_initializer(
                    var, start, var.shape, var.dtype, "rms", self._name
                )
            else:
                self._get_or_make_slot(var, ones_like(var), "rms", self._name)
            if "mg" in self._slot_inputs:
                self._zeros_slot(var, "mg", self._name)
            self._zeros_slot(var, "momentum", self._name)


class AdamOptimizer(_Fused):
    """Steps by running averages of gradients and their squares.

    The averages are bias-corrected. Source: Kingma and Ba (2014), as section 2 ends.
    """

    _kind = "Adam"
    _slot_inputs = MappingProxyType({"m": "m", "v": "v"})

    def __init__(
        self,
        learning_rate: HyperparameterLike = 0.001,
        beta1: HyperparameterLike = 0.9,
        beta2: HyperparameterLike = 0.999,
        epsilon: HyperparameterLike = 1e-8,
        use_locking: bool = False,
        name: str = "Adam",
        use_own_namescope_for_non_slot_vars: bool = False,
    ) -> None:
        hyper = {"lr": learning_rate, "beta1": beta1, "beta2": beta2, "epsilon": epsilon}
        super().__init__(use_locking, name, hyper, use_own_namescope_for_non_slot_vars)

    def _create_slots(self, var_list: Sequence[Variable]) -> None:
        first = min(var_list, key=lambda var: var.name)
        for key in ("beta1", "beta2"):
            value = self._hyper[key]
            self._create_non_slot_variable(
                value() if callable(value) else value, f"{key}_power", colocate_with=first
            )
        super()._create_slots(var_list)

    def _powers(self) -> tuple[Variable, Variable]:
        graph = get_default_graph()
        return self._get_non_slot_variable("beta1_power", graph), self._get_non_slot_variable(
            "beta2_power", graph
        )

    def _arguments(self, var: Variable, dtype: DTypeLike, *, is_resource: bool) -> dict[str, Any]:
        arguments = super()._arguments(var, dtype, is_resource=is_resource)
        for key, power in zip(("beta1_power", "beta2_power"), self._powers(), strict=True):
            arguments[key] = raw.Cast(x=convert_to_tensor(power), DstT=dtype)
        return arguments

    def _sparse(self, grad: Tensor, var: Variable, indices: Tensor, add_rows: Any) -> Operation:
        """Decay m and v everywhere and move the whole variable.

        TensorFlow's Adam does so for gathers.
        """
        dtype = grad.dtype.base_dtype
        hyper = {key: raw.Cast(x=tensor, DstT=dtype) for key, tensor in self._tensors.items()}
        powers = [raw.Cast(x=convert_to_tensor(power), DstT=dtype) for power in self._powers()]
        one = convert_to_tensor(1.0, dtype=dtype)
        rate = hyper["lr"] * raw.Sqrt(x=one - powers[1]) / (one - powers[0])
        m, v = self.get_slot(var, "m"), self.get_slot(var, "v")
        assert m is not None
        assert v is not None
        averages = []
        for slot, beta, rows in ((m, hyper["beta1"], grad), (v, hyper["beta2"], grad * grad)):
            decayed = slot.assign(convert_to_tensor(slot) * beta, use_locking=self._use_locking)  # type: ignore[attr-defined]
            with control_dependencies([decayed]):
                averages.append(add_rows(slot, indices, rows * (one - beta)))
        step = rate * averages[0] / (raw.Sqrt(x=averages[1]) + hyper["epsilon"])
        return group(var.assign_sub(step, use_locking=self._use_locking), *averages)  # type: ignore[attr-defined]

    def _apply_sparse(self, grad: IndexedSlices, var: Variable) -> Tensor | Operation:
        def add_rows(slot: Any, indices: Tensor, rows: Tensor) -> Tensor:
            added: Tensor = raw.ScatterAdd(
                ref=slot._ref(), indices=indices, updates=rows, use_locking=self._use_locking
            )
            return added

        return self._sparse(grad.values, var, grad.indices, add_rows)

    def _resource_apply_sparse(
        self, grad: Tensor, handle: Variable, indices: Tensor
    ) -> Tensor | Operation:
        def add_rows(slot: Any, indices: Tensor, rows: Tensor) -> Tensor:
            with control_dependencies(
                [raw.ResourceScatterAdd(resource=slot.handle, indices=indices, updates=rows)]
            ):
                value: Tensor = slot.read_value()
                return value

        return self._sparse(grad, handle, indices, add_rows)

    def _finish(self, update_ops: Sequence[Any], name_scope: str) -> Operation:
        """Advance the powers by one step after the updates."""
        powers = self._powers()
        with control_dependencies(update_ops), colocate_with(powers[0].op):
            betas = (self._tensors["beta1"], self._tensors["beta2"])
            moved = [
                power.assign(  # type: ignore[attr-defined]
                    convert_to_tensor(power) * raw.Cast(x=beta, DstT=power.dtype.base_dtype),
                    use_locking=self._use_locking,
                )
                for power, beta in zip(powers, betas, strict=True)
            ]
        return super()._finish([*update_ops, *moved], name_scope)


class FtrlOptimizer(_Fused):
    """Follow the regularised leader, proximal. Source: McMahan and others (2013).

    accum_name, linear_name: of the slots, instead of the optimizer's name. beta: as in the paper,
    it steadies the first steps. l2_shrinkage_regularization_strength: a penalty of the variable's
    size that is added to the gradient.
    Raises ValueError for a negative initial_accumulator_value or regularisation strength, and for a
    positive learning_rate_power.
    """

    _kind = "Ftrl"
    _slot_inputs = MappingProxyType({"accum": "accum", "linear": "linear"})

    def __init__(
        self,
        learning_rate: HyperparameterLike,
        learning_rate_power: float = -0.5,
        initial_accumulator_value: float = 0.1,
        l1_regularization_strength: float = 0.0,
        l2_regularization_strength: float = 0.0,
        use_locking: bool = False,
        name: str = "Ftrl",
        accum_name: str | None = None,
        linear_name: str | None = None,
        l2_shrinkage_regularization_strength: float = 0.0,
        beta: float | None = None,
    ) -> None:
        if initial_accumulator_value < 0.0:
            raise ValueError(
                f"initial_accumulator_value {initial_accumulator_value} needs to be positive or "
                "zero"
            )
        if learning_rate_power > 0.0:
            raise ValueError(
                f"learning_rate_power {learning_rate_power} needs to be negative or zero"
            )
        strengths = {
            "l1_regularization_strength": l1_regularization_strength,
            "l2_regularization_strength": l2_regularization_strength,
            "l2_shrinkage_regularization_strength": l2_shrinkage_regularization_strength,
        }
        for what, strength in strengths.items():
            if strength < 0.0:
                raise ValueError(f"{what} {strength} needs to be positive or zero")
        hyper = {
            "lr": learning_rate,
            "l1": l1_regularization_strength,
            "l2": l2_regularization_strength,
            "lr_power": learning_rate_power,
        }
        if l2_shrinkage_regularization_strength > 0.0:
            self._kind = "FtrlV2"
            hyper["l2_shrinkage"] = l2_shrinkage_regularization_strength
        super().__init__(use_locking, name, hyper)
        self._start = initial_accumulator_value
        self._beta = beta or 0.0
        self._accum_name, self._linear_name = accum_name or name, linear_name or name

    def _prepare(self) -> None:
        super()._prepare()
        if self._beta:  # it acts as l2 of beta / (2 lr)
            rate = self._tensors["lr"]
            half = self._beta / (
                2.0 * raw.Maximum(x=rate, y=convert_to_tensor(1e-36, dtype=rate.dtype.base_dtype))
            )
            self._tensors["l2"] = raw.Cast(x=self._tensors["l2"], DstT=rate.dtype.base_dtype) + half

    def _create_slots(self, var_list: Sequence[Variable]) -> None:
        for var in var_list:
            self._get_or_make_slot_with_initializer(
                var,
                lambda shape, dtype: ones(shape, dtype) * self._start,
                var.shape,
                var.dtype,
                "accum",
                self._accum_name,
            )
            self._zeros_slot(var, "linear", self._linear_name)


class ProximalGradientDescentOptimizer(_Fused):
    """Gradient descent with l1 and l2 regularisation by proximal steps.

    Source: Duchi and Singer (2009).
    """

    _kind = "ProximalGradientDescent"
    _gradient = "delta"

    def __init__(
        self,
        learning_rate: HyperparameterLike,
        l1_regularization_strength: float = 0.0,
        l2_regularization_strength: float = 0.0,
        use_locking: bool = False,
        name: str = "ProximalGradientDescent",
    ) -> None:
        super().__init__(
            use_locking,
            name,
            {
                "alpha": learning_rate,
                "l1": l1_regularization_strength,
                "l2": l2_regularization_strength,
            },
        )


class ProximalAdagradOptimizer(AdagradOptimizer):
    """Adagrad with l1 and l2 regularisation by proximal steps.

    Source: Duchi and Singer (2009).
    """

    _kind = "ProximalAdagrad"

    def __init__(
        self,
        learning_rate: HyperparameterLike,
        initial_accumulator_value: float = 0.1,
        l1_regularization_strength: float = 0.0,
        l2_regularization_strength: float = 0.0,
        use_locking: bool = False,
        name: str = "ProximalAdagrad",
    ) -> None:
        super().__init__(learning_rate, initial_accumulator_value, use_locking, name)
        self._hyper.update({"l1": l1_regularization_strength, "l2": l2_regularization_strength})

    def _create_slots(self, var_list: Sequence[Variable]) -> None:
        for var in var_list:
            start = _constant_like(var, self._start)
            self._get_or_make_slot(var, start, "accumulator", self._name)


class AdagradDAOptimizer(_Fused):
    """Adagrad by dual averaging. Source: Duchi, Hazan, Singer (2011).

    Rows that a step does not see are regularised at their next use.
    """

    _kind = "AdagradDA"
    _slot_inputs = MappingProxyType(
        {
            "gradient_accumulator": "gradient_accumulator",
            "gradient_squared_accumulator": "gradient_squared_accumulator",
        }
    )

    def __init__(
        self,
        learning_rate: HyperparameterLike,
        global_step: object,
        initial_gradient_squared_accumulator_value: float = 0.1,
        l1_regularization_strength: float = 0.0,
        l2_regularization_strength: float = 0.0,
        use_locking: bool = False,
        name: str = "AdagradDA",
    ) -> None:
        if initial_gradient_squared_accumulator_value <= 0.0:
            raise ValueError("initial_gradient_squared_accumulator_value must be positive.")
        super().__init__(
            use_locking,
            name,
            {
                "lr": learning_rate,
                "l1": l1_regularization_strength,
                "l2": l2_regularization_strength,
            },
        )
        self._start = initial_gradient_squared_accumulator_value
        self._global_step = global_step

    def _create_slots(self, var_list: Sequence[Variable]) -> None:
        for var in var_list:
            zero, start = (_constant_like(var, value) for value in (0.0, self._start))
            self._get_or_make_slot(var, zero, "gradient_accumulator", self._name)
            self._get_or_make_slot(var, start, "gradient_squared_accumulator", self._name)

    def _prepare(self) -> None:
        super()._prepare()
        # this step's number, counted already or not
        step = raw.Cast(x=convert_to_tensor(self._global_step), DstT=dtypes.int64)
        self._tensors["global_step"] = step + convert_to_tensor(1, dtype=dtypes.int64)
