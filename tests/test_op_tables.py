"""Facts about ops are traits: a table of op names outside `tfjit.ops` is a rule of one module.

A module-level set, dict, tuple or list counts as such a table when at least half of the names in it
are op types. `TABLES` has them all. They are rules and kernels by op type, and ops that one module
alone has a reason to treat alike. The list may shrink. A fact that two modules ask for is a trait
(framework/op_defs/op_traits.py).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tfjit.framework.op_defs.op_registry import registry

ROOT = Path(__file__).resolve().parent.parent
LAYERS = ("passes", "tfjit/runtime", "kernels", "tfjit/framework")
TABLES: Final = {
    "kernels/cpu/data_movement/scatter.py": "COPY_OPS SEGMENT_OPS",
    "kernels/cpu/elementwise/sparse_math.py": "_SCALAR_OPS",
    "kernels/cpu/fused.py": "ANCHORS",
    "kernels/cpu/images/color.py": "_BODIES _PIXEL_NS",
    "kernels/cpu/images/resize.py": "_TAPS",
    "kernels/cpu/loop_program/text.py": "_COMPARISONS",
    "kernels/cpu/random/draws.py": "DRAWN DRAWS _STATELESS",
    "kernels/cpu/reduction/reducers.py": "OPS",
    "kernels/cpu/reduction/scan.py": "KINDS",
    "kernels/cpu/reduction/segment.py": "_KINDS",
    "kernels/cpu/reference/arithmetic/elementwise.py": "_COMPARE_ANY",
    "kernels/cpu/reference/arithmetic/reduction.py": "_REDUCTIONS",
    "kernels/cpu/reference/arithmetic/segment.py": "_COMBINE _SCALES",
    "kernels/cpu/reference/arrays/indexing.py": "_COMBINE",
    "kernels/cpu/reference/layers/fused_layers.py": "_ACTIVATIONS",
    "kernels/cpu/reference/random_values/candidate_sampling.py": "_SAMPLERS",
    "kernels/cpu/reference/random_values/distributions.py": "FLOAT_STREAMS",
    "kernels/cpu/reference/random_values/rng.py": "_STREAMS",
    "kernels/cpu/reference/random_values/stateful_random.py": "_STATEFUL",
    "kernels/cpu/reference/sparse/sparse_math.py": "_CWISE",
    "kernels/cuda/backend.py": "_COMPARISONS",
    "kernels/cuda/data_movement/movement.py": "OPS",
    "kernels/cuda/reduction/segment.py": "_SUMS",
    "kernels/cuda/template/element_kinds.py": "HOST_ONLY",
    "kernels/cuda/fusion_rules.py": "_DEAR",
    "kernels/cuda/placed_ops.py": "HOST_COMPUTED",
    "kernels/ir/loop_program.py": "REDUCTIONS",
    "kernels/ir/op_forms.py": "BIAS MOVING PARAMETERS ROW_OPS SLICING",
    "kernels/precompile/build_order.py": "_LOOPS",
    "kernels/precompile/elementwise_kernels.py": "_COMMON _INDICES _NEVER _ORDER _SCALED",
    "kernels/precompile/fused_kernels.py": "_ACTIVATIONS _BY_CHANNEL _WHOLE",
    "kernels/precompile/movement_kernels.py": "_SEGMENTS",
    "kernels/precompile/reduction_kernels.py": "_REDUCED",
    "passes/analysis/host_memory.py": "_ARGS",
    "passes/analysis/induction_variables.py": "_COMPARISONS",
    "passes/analysis/list_shapes.py": "_JOINED",
    "passes/analysis/region_tree.py": "_PURE",
    "passes/analysis/padding.py": "_RULES",
    "passes/analysis/resource_shapes.py": "QUEUE_OPS TABLE_OPS",
    "passes/analysis/static_values.py": "_INTEGER_MATH",
    "passes/canonicalize/fold_transposes.py": "PRODUCTS",
    "passes/canonicalize/strip_debug.py": "_GO _PASS_ON",
    "passes/fusion/fold_padding.py": "CONVOLUTIONS",
    "passes/fusion/fuse.py": "PIECEWISE",
    "passes/legalize/custom_kernels.py": "_NOT_ASKED",
    "passes/legalize/inline_functions.py": "_MAY_GO",
    "passes/history/standard_ops.py": "_REPLACEMENTS _STAY",
    "passes/offload/host_nodes.py": "NEVER _BY_POSITION",
    "passes/offload/levels.py": "_JOINTS",
    "passes/offload/offloadable_loops.py": "ROW_OPS _NOTHING",
    "passes/offload/outline_offloaded.py": "_PRODUCTS",
    "passes/loops/arrays_to_lists.py": "_UNDERSTOOD",
    "passes/loops/list_aliases.py": "FLOWS INDEXED _IDENTITY_LIKE LISTS",
    "passes/loops/index_accumulators.py": "_LISTS _STACKS",
    "passes/loops/loop_program_steps.py": "_FILLS",
    "passes/loops/sink_reductions.py": "_SUMS",
    "passes/partitioning/split_stages.py": "_REPLICABLE",
    "tfjit/framework/graphs/static_value.py": "_FOLDS _FROM_SHAPES _OF_SHAPES",
    "tfjit/framework/scalar/scalar_expression.py": "_BINARY _UNARY",
    "tfjit/runtime/collectives/ring_run.py": "_MERGES",
    "tfjit/runtime/executor/node_runner.py": "_OWN",
    "tfjit/runtime/kernel_api/op_kernel.py": "VARIANT_OPS",
    "tfjit/runtime/lowering/blocking_order.py": "_PLAIN",
    "tfjit/runtime/lowering/lowering.py": "NOTHING_OPS",
    "tfjit/runtime/lowering/structured_control_flow.py": "_SLICES",
    "tfjit/runtime/lowering/variable_reads.py": "_READS_ONLY",
    "tfjit/runtime/op_kernels/io/collective_ops.py": "_MERGES",
    "tfjit/runtime/offload/loop_unrolling.py": "_BY_POSITION",
    "tfjit/runtime/sizes/size_constants.py": "QUERIES DECIDES ARITHMETIC COMPARES",
    "tfjit/runtime/sizes/size_formulas.py": "_SHAPE_OPERANDS _INDEX_OPERANDS",
    "tfjit/runtime/profiling/placement_feedback.py": "_UNCOUNTED",
    "tfjit/runtime/schedule/batch_axes.py": "_RULES",
}


def names_in(value: ast.expr) -> Iterator[str]:
    """Yield the strings that are elements or keys of the collections in an expression."""
    for node in ast.walk(value):
        items: list[ast.expr] = []
        if isinstance(node, ast.Set | ast.Tuple | ast.List):
            items = node.elts
        elif isinstance(node, ast.Dict):
            items = [key for key in node.keys if key is not None]
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "split"
            and isinstance(node.func.value, ast.Constant)
        ):
            yield from str(node.func.value.value).split()
        for item in items:
            if isinstance(item, ast.Constant) and isinstance(item.value, str):
                yield item.value


def tables(source: str) -> Iterator[str]:
    """Yield the names that a module gives to tables of op names."""
    for statement in ast.parse(source).body:
        if isinstance(statement, ast.Assign):
            target, value = statement.targets[0], statement.value
        elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
            target, value = statement.target, statement.value
        else:
            continue
        names = list(names_in(value))
        ops = [name for name in names if name in registry]
        if ops and 2 * len(ops) >= len(names):
            yield ast.unparse(target)


def found() -> set[str]:
    """Return the tables of all layers, as "file: name"."""
    return {
        f"{path.relative_to(ROOT)}: {name}"
        for layer in LAYERS
        for path in sorted((ROOT / layer).rglob("*.py"))
        if not path.name.endswith("_pb2.py")
        for name in tables(path.read_text(encoding="utf-8"))
    }


def test_tables_are_recognized() -> None:
    assert list(tables('A = frozenset({"Add", "Sub"})')) == ["A"]
    assert list(tables('A: Final = {"Add": 1, "no op": 2}')) == ["A"]
    assert list(tables('A = "Add Sub".split()')) == ["A"]
    assert list(tables('A = B | {*("Add",), *C}')) == ["A"]
    assert list(tables('A = ("Add", "no op", "none")')) == []
    assert list(tables('def f():\n    A = ("Add", "Sub")')) == []


def test_each_table_of_op_names_is_a_rule_of_its_module() -> None:
    known = {f"{path}: {name}" for path, names in TABLES.items() for name in names.split()}
    assert found() - known == set(), "declare a trait; or add the rule of one module to TABLES"
    assert known - found() == set(), "gone: take it off the list"
