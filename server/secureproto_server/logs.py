"""The process's log: one line an event, UTC, to stderr. Facts as key=value; never data, tensors, losses or counts.

Set up by whoever runs the process (`cli.server`), never by an import.
"""

import logging
import time

LINE = "%(asctime)sZ level=%(levelname)s logger=%(name)s %(message)s"
# what others say at INFO is their own life, not the federation's
QUIET = ("uvicorn", "uvicorn.error", "alembic", "httpx")


def configure(level: str) -> None:
    """Write log lines to stderr from this level on."""
    handler = logging.StreamHandler()
    formatter = logging.Formatter(LINE, "%Y-%m-%dT%H:%M:%S")
    formatter.converter = time.gmtime  # UTC, whatever the host's zone
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name in QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
