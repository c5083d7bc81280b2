"""Fast adaptive inference: the reference, the scheduler of slots, and the engine."""
