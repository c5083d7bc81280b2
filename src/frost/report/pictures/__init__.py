"""Pictures of their own: the problems of the demo, and the frontier."""
