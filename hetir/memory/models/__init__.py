"""Memory models: hetIR's own and those of its targets."""
