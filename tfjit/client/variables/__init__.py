"""Make variables: creation, scopes, initializers, assignment, collections.

In: initial values, names. Out: variable objects and their ops. Not in here: optimizers,
checkpoints.
"""
