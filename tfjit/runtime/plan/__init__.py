"""Keep a runnable plan for each signature, in variants by feed shapes.

In: a signature, fed values. Out: fetched values. Not in here: sessions: plans ask a PlanHost.
"""
