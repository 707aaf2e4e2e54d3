"""`sapwood depend audit`: heads, relations and tags of a treebank that are probably wrong."""
