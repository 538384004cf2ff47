"""hetir.backends.llvm."""
