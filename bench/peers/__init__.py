"""One module a peer: `describe()`, and `MAKERS`, which maps a problem to a maker of runs."""
