"""The algorithms a comparison carries: one a file, to be read with its paper open. Each is a `method.Method`."""
