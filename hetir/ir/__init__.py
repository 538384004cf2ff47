"""hetir.ir."""
