"""A run as one HTML file: its model, examples and budgets, and the plain JavaScript that runs them in a browser."""
