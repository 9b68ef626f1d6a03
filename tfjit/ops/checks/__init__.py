"""Check tensors, while the graph is built or in its runs.

In: tensors of any dtype, sparse ones too, and the relation, rank, dtype or shape that they have to
have. Out: operations to wait for, which raise InvalidArgumentError in a run; errors at once for
facts that are known. Beside them: labels, predictions and weights brought to shapes that fit, and
the confusion matrix, which is made of checks. Not here: variables and collections (tfjit.client).
"""
