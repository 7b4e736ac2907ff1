"""Differential privacy of a data set: what was released, what that costs, and what may still be."""
