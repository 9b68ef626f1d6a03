"""Losses of models, and metrics that are summed over many runs.

In: labels, predictions and weights of a batch. Out: losses, which are listed in collections for the
optimizer; pairs of a metric's value and the operation that adds a batch to it, with local variables
between them. Not in here: losses of tf.nn, which know no weights and collections; optimizers.
"""
