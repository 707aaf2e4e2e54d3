"""The web page and its JSON API: `sapwood serve`. It renders the reports of `sapwood.report`."""
