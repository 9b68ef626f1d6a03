"""What a graph is: types, shapes, attrs, ops, graphs and their GraphDefs."""
