"""Like PyTorch's, this does not show its module `optimizer`."""
