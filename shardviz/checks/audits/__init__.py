"""A whole model, a file of weights, or one shape against a mesh: what the installed torch will get wrong."""
