"""Run graphs for the user: Session, feeds, fetches, callables, TensorFlow's graphs.

In: structures of tensors, fed values. Out: structures of arrays. Not in here: execution.
"""
