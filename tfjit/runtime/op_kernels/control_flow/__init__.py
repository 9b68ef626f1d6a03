"""Implement function calls: While, If, Case, map; assertions; the user's Python.

In: an OpContext and inputs. Out: the outputs of a body, or of a Python function. Not in here:
Switch and Merge, which the executor runs.
"""
