"""The memory model: how hetIR's operations are lowered, and a checker that judges programs."""
