"""The pass manager: registered passes, pipelines over graphs and bodies, rewriting helpers.

In: a graph, a pipeline of steps and fixpoints, options. Out: the graph rewritten, a report of each
pass. Disabling, timing, verifying and dumps hold in every body. The built-in order is data here
(`default_pipeline.py`). Not in here: passes themselves.
"""
