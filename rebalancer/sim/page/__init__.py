"""One self-contained HTML page about one run, or about two of them on the same traffic: `page.html.page`."""
