"""Models of plain strings: weighted grammars without labels, and weighted automata."""
