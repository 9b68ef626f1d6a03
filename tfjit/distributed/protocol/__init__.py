"""The protocol of clients, masters and workers: calls, messages, errors.

In: values and messages. Out: calls over gRPC, with TensorFlow's method paths and status codes. Not
in here: how a master or a worker answers.
"""
