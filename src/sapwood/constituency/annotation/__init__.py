"""Annotation of phrase trees: grammars of a treebank that grows, and what helps the annotator."""
