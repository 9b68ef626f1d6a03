"""The protocol of clients, masters and workers: interfaces, messages, errors.

In: values and messages. Out: TensorFlow's method paths, messages and status codes. Not in here: how
a message travels, and how a master or a worker answers.
"""
