"""Which function is the gradient of an op type."""

from __future__ import annotations

from typing import Any

import pytest

import tfjit
from tfjit.framework.op_defs import gradient_registry


def test_registration() -> None:
    @tfjit.RegisterGradient("TestGradA")
    @tfjit.RegisterGradient("TestGradB")
    def gradient(op: Any, dy: Any) -> Any:
        return dy

    tfjit.NotDifferentiable("TestGradC")
    try:
        assert (
            gradient_registry.lookup("TestGradA")
            is gradient_registry.lookup("TestGradB")
            is gradient
        )
        assert gradient_registry.lookup("TestGradC") is None and gradient_registry.has_gradient(
            "TestGradC"
        )
        assert not gradient_registry.has_gradient("TestGradD")
        with pytest.raises(LookupError, match="^gradient registry has no entry for: TestGradD$"):
            gradient_registry.lookup("TestGradD")
        with pytest.raises(
            KeyError,
            match=r"two gradient with name 'TestGradA'! \(Previous registration was in "
            r".*test_gradient_",
        ):
            tfjit.RegisterGradient("TestGradA")(gradient)
        with pytest.raises(KeyError, match="Registering two gradient with name 'TestGradC'!"):
            tfjit.NoGradient("TestGradC")
    finally:
        for name in "ABC":
            gradient_registry.unregister(f"TestGrad{name}")
    with pytest.raises(TypeError, match="^op_type must be a string$"):
        tfjit.RegisterGradient(3)  # type: ignore[arg-type]
