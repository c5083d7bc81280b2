"""A model and its stopping rules as a folder that runs without PyTorch: `frost export`."""
