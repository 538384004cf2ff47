"""hetir.frontend."""
