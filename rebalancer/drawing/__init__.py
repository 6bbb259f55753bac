"""Pages that stand alone: plots over one time axis as SVG, tables, one style. Whoever uses them says what they show."""
