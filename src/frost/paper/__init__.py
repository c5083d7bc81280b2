"""The reproduction: one file for each section of the paper, with its claim, numbers, units, checks and drawing."""
