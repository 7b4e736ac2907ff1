"""The records of a simulation: published data sets by name, and files of the user's own, each as one pool."""
