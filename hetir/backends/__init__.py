"""hetir.backends."""
