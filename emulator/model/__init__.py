"""The nouns of the project: fabrics, cost models, claims and the formulas that predict them. Pure data, no I/O."""
