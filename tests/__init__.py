"""The proof: tests/<room>/ by behaviour, testbed/ for the real parts, bench/ for the figures."""
