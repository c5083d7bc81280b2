"""The paper kit: every table and figure of the paper, measured, beside the paper's numbers."""
