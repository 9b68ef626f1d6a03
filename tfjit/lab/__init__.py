"""Experiments on one's own graph, as functions that return objects.

In: a session or a model, feeds, fetches. Out: objects with texts, tables and pages. Not in here:
the command line, which prints these objects. Each name is imported on first use.
"""
