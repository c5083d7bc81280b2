"""Image sets and their splits; a leaf that knows no model."""
