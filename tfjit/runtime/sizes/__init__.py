"""Express shapes and constants as formulas of the sizes that vary.

In: lowered partitions of sample sizes. Out: formulas that give them for other sizes, and the calls
that the builders make of these. Not in here: the variants that run
(`runtime/plan/generic_variant.py`).
"""
