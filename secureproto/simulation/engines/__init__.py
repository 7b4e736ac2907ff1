"""Where sites are trained: in this process, or by Ray on one machine or many. Same seed, same numbers.

A `Worker` does a site's part and knows nothing of where it runs; an `Engine` hands jobs to workers and gives their
results back in the order of the jobs, whichever is done first.
"""
