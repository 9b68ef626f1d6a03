"""Feed data: queues, readers, parsing, records, summaries, sparse tensors.

In: files, tensors. Out: tensors, records. Not in here: training.
"""
