"""Sessions on a cluster as runtime sessions of a client.

In: targets "grpc://host:port". Out: the runtime session interface. Not in here: plans.
"""
