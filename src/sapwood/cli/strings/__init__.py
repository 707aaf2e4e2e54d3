"""Commands about models of plain sentences, whose trees are hidden."""
