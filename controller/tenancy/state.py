"""All declared resources together, as one immutable value, and the changes that lead from one to the next. Pure."""
