"""The page and its JSON API: `sapwood serve`. It renders what `sapwood.report` gives."""
