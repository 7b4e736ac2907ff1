"""One file a step, named after its revision."""
