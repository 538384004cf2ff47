"""hetir.backends.cpu."""
