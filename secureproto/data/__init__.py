"""A site's own records: read where they lie, encoded as the study says, divided into training and hold-out.

A site reads its data with this room, and a simulation those of its user: the same code, so a row means the same in
both. The seam is `source.DataSource`, one method; a package of the site's own can be one (`factory`).
"""
