"""hetir.passes."""
