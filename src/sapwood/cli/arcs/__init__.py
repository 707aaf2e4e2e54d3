"""Commands about dependency trees: `sapwood depend ...`, a file for each."""
