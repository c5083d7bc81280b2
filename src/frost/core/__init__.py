"""The dynamics (§2–3): states, scaled operators, update rules, and the model that iterates them."""
