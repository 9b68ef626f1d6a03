"""An op's contract, reference, compiled kernel, gradient and runtime kernel share a family name."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from tfjit.framework.op_defs import gradient_registry
from tfjit.framework.op_defs.op_registry import registry
from tfjit.framework.scalar.elementwise import TABLE
from tfjit.kernels import registry as kernels
from tfjit.ops.autodiff import backprop, not_differentiable
from tfjit.ops.core.families import FAMILIES
from tfjit.runtime import op_kernels
from tfjit.runtime.kernel_api import op_kernel

# Modules that serve other families than the one they are named for: module -> (families, reason).
TEMPLATES: Final = {
    "kernels.cpu.conv.conv": ({"convolution"}, "a direction of a convolution is a template"),
    "kernels.cpu.conv.conv_grad": ({"convolution"}, "a direction of a convolution is a template"),
    "kernels.cpu.conv.depthwise": ({"convolution"}, "each channel by itself has its own loop"),
    "kernels.cpu.conv.window_maxima": ({"morphology", "pooling"}, "maxima by value and place"),
    "kernels.cpu.data_movement.gather": ({"indexing"}, "rows read by index"),
    "kernels.cpu.data_movement.movement": (
        {"array", "movement", "slicing", "space"},
        "all are copies with strides",
    ),
    "kernels.cpu.data_movement.range_and_band": (
        {"array", "diagonal"},
        "values that follow from an element's place",
    ),
    "kernels.cpu.data_movement.scatter": (
        {"array", "indexing", "segment"},
        "rows written by index",
    ),
    "kernels.cpu.data_movement.variable_scatter": ({"scatter"}, "rows updated in place by index"),
    "kernels.cpu.elementwise.sparse_updates": (
        {"optimizer_updates"},
        "the rules of dense updates in a loop over rows",
    ),
    "kernels.cpu.elementwise.assign": ({"variable"}, "a loop that writes a variable in place"),
    "kernels.cpu.elementwise.quantization": (
        {"fake_quant", "quantization"},
        "loops over one range",
    ),
    "kernels.cpu.elementwise.loop": (
        {"activation", "elementwise", "normalization"},
        "any scalar function in a loop, each a row of the table",
    ),
    "kernels.cpu.gemm.matmul": ({"matrix_product"}, "one GEMM for products of any number of axes"),
    "kernels.cpu.images.crop_gradients": ({"crop"}, "sums over crops"),
    "kernels.cpu.linear_algebra.cholesky": ({"factorizations"}, "factors of half a matrix"),
    "kernels.cpu.reduction.argmax": ({"reduction"}, "a reduction that carries a position"),
    "kernels.cpu.random.rejection": ({"stateful_random"}, "each output draws until it accepts"),
    "kernels.cpu.random.shuffle": ({"stateful_random"}, "rows and classes by draws in order"),
    "kernels.cpu.reduction.histogram": ({"segment"}, "counts of each chunk, then their sum"),
    "kernels.cpu.reduction.local_response": ({"normalization"}, "sums of windows of channels"),
    "kernels.cpu.reduction.sorted_search": ({"indexing"}, "rows halved until a place is left"),
    "kernels.cpu.reduction.reduction": (
        {"losses", "normalization", "reduction"},
        "sums over any axes",
    ),
    "kernels.cpu.reduction.row_reduction": (
        {"losses", "normalization"},
        "several passes over a row while it is in the cache",
    ),
    "kernels.cpu.reduction.scan": ({"reduction"}, "a reduction that keeps each partial result"),
    "kernels.cpu.reference.arithmetic.elementwise": (
        {"activation", "elementwise"},
        "generated from the rows of framework/scalar/elementwise.py",
    ),
    "runtime.op_kernels.control_flow.map_defun": ({"functional"}, "a function run for each row"),
    "runtime.op_kernels.containers.csr_matrix_ops": ({"sparse_matrix"}, "variants of matrices"),
    "runtime.op_kernels.containers.sparse_map_ops": ({"sparse"}, "sparse tensors by number"),
    "runtime.op_kernels.io.constant_ops": ({"array"}, "constants in files"),
    "runtime.op_kernels.io.record_input_ops": ({"staging"}, "records in random order"),
    "runtime.op_kernels.io.saved_slices_ops": ({"io"}, "checkpoints of version 1"),
    "runtime.op_kernels.io.transfer_ops": ({"array", "transfer"}, "placeholders are fed or fail"),
    "runtime.op_kernels.containers.variant_ops": ({"tensor_list"}, "arrays of lists"),
    "runtime.op_kernels.datasets.batch_ops": (
        {"dataset", "dataset_option"},
        "elements made of several, or of parts of one",
    ),
    "runtime.op_kernels.datasets.cache_ops": (
        {"dataset", "dataset_option"},
        "elements kept in memory and files",
    ),
    "runtime.op_kernels.datasets.file_ops": (
        {"dataset", "dataset_option"},
        "lines and records of files",
    ),
    "runtime.op_kernels.datasets.generator_ops": ({"dataset"}, "results of a function with state"),
    "runtime.op_kernels.datasets.group_ops": (
        {"dataset", "dataset_option"},
        "elements grouped by a key",
    ),
    "runtime.op_kernels.datasets.result_ops": (
        {"dataset", "dataset_option"},
        "results of whole datasets",
    ),
    "runtime.op_kernels.datasets.iterator_ops": ({"dataset", "dataset_option"}, "iterators"),
    "runtime.op_kernels.datasets.map_ops": (
        {"dataset", "dataset_option"},
        "results of functions, in order",
    ),
    "runtime.op_kernels.datasets.parallel_ops": (
        {"dataset", "dataset_option"},
        "elements that threads compute ahead",
    ),
    "runtime.op_kernels.datasets.selection_ops": (
        {"dataset", "dataset_option"},
        "elements that pass a test",
    ),
    "runtime.op_kernels.datasets.sequence_ops": (
        {"dataset", "dataset_option"},
        "parts and combinations of datasets",
    ),
    "runtime.op_kernels.datasets.shuffle_ops": (
        {"dataset", "dataset_option"},
        "random order, and generators of seeds",
    ),
    "runtime.op_kernels.datasets.parse_ops": ({"dataset"}, "features of messages, rows of CSV"),
    "runtime.op_kernels.datasets.source_ops": (
        {"dataset", "dataset_option"},
        "tensors, ranges, random numbers",
    ),
}

# Layers that have the rooms of tfjit/ops: kind -> folder.
SAME_ROOMS: Final = {"gradient": "ops.autodiff", "reference": "kernels.cpu.reference"}


def family_of(op_type: str) -> str:
    """The last part of the name of the module that declares the op."""
    return registry._families.get(op_type, "").rpartition(".")[2]


def module_of(function: Callable[..., Any]) -> str:
    return inspect.unwrap(function).__module__.removeprefix("tfjit.")


def gradient_modules() -> dict[str, str]:
    """Op type -> module, as its registration is remembered: "function file:line"."""
    backprop._load_rules()
    room = Path(backprop.__file__).parent
    found = {}
    for op_type, entry in gradient_registry._entries.items():
        path = Path(entry.where.split(" ", 1)[1].rpartition(":")[0])
        if entry.gradient is not None and path.is_relative_to(room):
            inside = path.relative_to(room).with_suffix("").parts
            found[op_type] = f"ops.autodiff.{'.'.join(inside)}"
    return found


def modules(kind: str) -> dict[str, str]:
    """Op type -> the module that registers its part of that kind."""
    if kind == "gradient":
        return gradient_modules()
    if kind == "reference":
        return {op: module_of(kernels._REFERENCES[op]) for op in kernels.reference_types()}
    if kind == "native":
        kernels.find_native("")
        return {op: module_of(builder) for op, builder in kernels._BUILDERS.items()}
    op_kernels.load_all()
    made = {op: kernel.compute for op, kernel in op_kernel._KERNELS.items()}
    return {op: module_of(function) for op, function in (made | op_kernel._MAKERS).items()}


@pytest.mark.parametrize("kind", ["reference", "native", "gradient", "runtime"])
def test_modules_have_their_familys_name(kind: str) -> None:
    registry.list()
    found = {op: module for op, module in modules(kind).items() if family_of(op)}
    assert len(found) > 200
    wrong, served = [], {module: set[str]() for module in TEMPLATES}
    for op_type, module in sorted(found.items()):
        family, name = family_of(op_type), module.rpartition(".")[2].removesuffix("_ops")
        if module in TEMPLATES:
            served[module].add(family)
        elif kind in SAME_ROOMS:
            if module != f"{SAME_ROOMS[kind]}.{registry._families[op_type]}":
                wrong.append(f"{op_type}: its contract is in {family}, its {kind} in {module}")
        elif name != family:
            wrong.append(f"{op_type}: its contract is in {family}, its {kind} in {module}")
    assert not wrong, "\n".join(wrong)
    for module, families in served.items():
        if families:
            assert families == TEMPLATES[module][0], module


def test_each_template_is_used() -> None:
    registry.list()
    used = {
        module for kind in ("reference", "native", "runtime") for module in modules(kind).values()
    }
    assert set(TEMPLATES) <= used
    for module, (families, reason) in TEMPLATES.items():
        assert reason and families != {module.rpartition(".")[2].removesuffix("_ops")}, module


def test_modules_of_runtime_kernels_are_listed() -> None:
    """A family's kernels are imported by the list, when a node of the family asks."""
    room = Path(op_kernels.__file__).parent
    found = {".".join(path.relative_to(room).with_suffix("").parts) for path in room.glob("*/*.py")}
    found = {name for name in found if not name.endswith(("__init__", "signatures"))}
    listed = {
        module
        for lists in (op_kernels._MODULES, op_kernels._WITHOUT_FAMILY)
        for modules in lists.values()
        for module in modules
    }
    assert found == listed
    for op_type, module in modules("runtime").items():
        name = module.removeprefix("runtime.op_kernels.")
        if name not in op_kernels._WITHOUT_FAMILY["offload"]:
            assert name in op_kernels._MODULES[registry._families[op_type]], op_type


def test_references_of_templates_are_rows() -> None:
    registry.list()
    rows = {row.op for row in TABLE}
    found = modules("reference")
    for op_type, module in found.items():
        if (
            module == "kernels.cpu.reference.arithmetic.elementwise"
            and family_of(op_type) != "elementwise"
        ):
            assert op_type in rows, op_type


def test_ops_without_gradient_stand_under_their_family() -> None:
    registry.list()
    for family, op_types in not_differentiable.OPS.items():
        for op_type in op_types.split():
            assert registry._families[op_type] == family, op_type


def test_family_names_are_unique() -> None:
    """Builders and runtime kernels are found by a family's name, without its room."""
    names = [name.rpartition(".")[2] for name in FAMILIES]
    assert len(set(names)) == len(names)
    assert set(registry._families.values()) == set(FAMILIES)


def test_every_module_that_declares_ops_is_a_family() -> None:
    """The registry looks for op types in FAMILIES alone."""
    folder = Path(__file__).resolve().parent.parent / "tfjit" / "ops"
    declaring = {
        f"{path.parent.name}.{path.stem}"
        for path in folder.glob("*/*.py")
        if re.search(r"^ *register_(op|elementwise)\(", path.read_text("utf-8"), re.MULTILINE)
        and path.parent.name != "core"
    }
    assert declaring <= set(FAMILIES), "add it to tfjit/ops/core/families.py"
