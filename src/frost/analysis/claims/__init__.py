"""What the paper claims, what we measured, and a verdict that follows from a stated rule.

Pure functions of the units' numbers: none runs a model, and each can be asked again of numbers that lie in a file.
"""
