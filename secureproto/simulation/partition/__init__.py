"""How records are divided over sites: schemes (one a file), their names, the draw, the saved file, the picture.

Invariants of every scheme: a record is training data of one site at most; equal records, options and seeds give the
same division; a division that the records cannot feed is refused before anything is drawn, and no draw is repeated
until it fits.
"""
