"""Training (§5): the objective, the optimiser, and the loop."""
