"""When to stop (§4): plain tensors in, plain tensors out; never sees a model."""
