"""Commands about grammars of trees: learn, parse, score, look into."""
