"""The site's own data: read where they lie, encoded as the study says, divided into training and hold-out.

The seam is `source.DataSource`, one method; a package of the site's own can be one (`factory`).
"""
