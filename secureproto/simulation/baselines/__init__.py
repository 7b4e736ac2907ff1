"""The algorithms a comparison carries: one a file, to be read with its paper open.

Each has `run(sites, study, *, allowed_factories=())`, which gives an `Outcome` for every site.
"""
