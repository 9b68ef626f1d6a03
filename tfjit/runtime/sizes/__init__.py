"""Express shapes and constants as formulas of the sizes that vary.

In: lowered partitions of sample sizes. Out: formulas that give them for other sizes. Not in here:
the variants that run (`runtime/plan/generic_variant.py`).
"""
