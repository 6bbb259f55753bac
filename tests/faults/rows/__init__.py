"""The 101 rows, by the tables of the catalogue."""
