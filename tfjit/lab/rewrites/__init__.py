"""The rewrites of a run: their history, and the one from which on a run is wrong or slow.

In: a graph or model, fetches, feeds; or a script. Out: a `History`, a `Bisection`. Not in here: the
recording and the counting of rewrites (`passes/history`, `passes/manager`).
"""
