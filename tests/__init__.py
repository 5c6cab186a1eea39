"""The tests; a package, so that no installed distribution that carries a `tests` package hides it."""
