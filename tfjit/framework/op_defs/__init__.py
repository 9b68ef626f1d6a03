"""Hold contracts of op types: attrs, arguments, shape rules, gradients' names.

In: declarations of `tfjit.ops`. Out: OpDef, found by op type. Not in here: the declarations
themselves.
"""
