"""Bring a run's graph into the form that later passes accept.

In: the extracted graph and a RunSpec. Out: `_Arg` and `_Retval` nodes, inlined functions. Not in
here: optimisation.
"""
