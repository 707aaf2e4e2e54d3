"""Commands about treebanks themselves."""
