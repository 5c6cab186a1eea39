"""Records and the results folder that they are written to: the contract between measuring and reporting."""
