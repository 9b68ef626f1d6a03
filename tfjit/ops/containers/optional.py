"""Declare optional values."""

from __future__ import annotations

from tfjit.ops.core.declare import register_op

register_op(
    "OptionalFromValue",
    inputs=("components: Toutput_types",),
    outputs=("optional: variant",),
    attrs=("Toutput_types: list(type) >= 1",),
)
register_op(
    "OptionalGetValue",
    inputs=("optional: variant",),
    outputs=("components: output_types",),
    attrs=("output_types: list(type) >= 1", "output_shapes: list(shape) >= 1"),
)
register_op("OptionalHasValue", inputs=("optional: variant",), outputs=("has_value: bool",))
register_op("OptionalNone", outputs=("optional: variant",))
