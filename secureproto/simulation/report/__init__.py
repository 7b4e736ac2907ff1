"""The report of an experiment: one HTML page with tables and plots, to be read, printed and kept.

Only this room draws. It takes histories and their summary and computes nothing new but curves over rounds, counts of
what sites chose, and the comparisons of what they use by it; matplotlib and jinja2 are loaded here and nowhere else.
"""

from secureproto.simulation.report.page import OnPartition, Report, render

__all__ = ["OnPartition", "Report", "render"]
