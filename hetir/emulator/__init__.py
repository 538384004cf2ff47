"""hetir.emulator."""
