"""The rewrites of a run: their history, and the one at fault.

In: a graph or model, fetches, feeds; or a script. Out: a `History`, a `Bisection`. Not in here: the
recording and the counting of rewrites (`passes/history`, `passes/manager`).
"""
