"""Whole federations in one process, for comparisons and for trying a study out before it is opened."""
