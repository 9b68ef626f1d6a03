"""Turn features, by name, into inputs of a model.

In: columns that say how a feature becomes numbers, tensors by feature name. Out: one dense tensor,
or the sums of a linear model, with the columns' variables in collections. Not in here: parsing of
records (`data`), layers without columns (`network`).
"""
