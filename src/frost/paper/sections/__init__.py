"""One file a section of the paper: its claim, the paper's numbers, the units it needs, the checks, the drawing."""
