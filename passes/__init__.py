"""Graph -> graph: the working graph on networkx and the passes that rewrite it in place."""
