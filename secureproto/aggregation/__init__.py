"""The server side of the method: what accepted uploads become. NumPy float64, no torch, no I/O, no clock.

Invariants of the room:
1. A result depends on the set of uploads, never on the order in which they came: every sum runs over the sites
   sorted by their ids.
2. Nothing of a peer enters a sum before it was checked (`intake`); a refusal names the site and no number of it.
3. The extractor's mean is streamed: its memory does not grow with the number of sites. What does grow with it is
   one head and one C × (d+1) matrix a site; no m × m matrix is held beyond a block of rows.
"""
