"""The client's log: short lines for whoever watches, all of it in `state/client.log`.

Invariant: what depends on the site's records (losses) is logged at debug level and goes to the file at the most,
never to the screen, for a service's stderr is often collected elsewhere.
"""

import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from logging.handlers import RotatingFileHandler
from pathlib import Path

NAMES = ("secureproto", "secureproto_client")
MAX_BYTES, KEPT = 5 * 2**20, 3


@contextmanager
def logging_to(path: Path, level: str) -> Iterator[None]:
    """Log to the file at `level`, and to stderr at info or above, inside the block."""
    shape = logging.Formatter("%(asctime)s %(levelname)s %(message)s", "%Y-%m-%dT%H:%M:%SZ")
    shape.converter = time.gmtime
    screen, file = logging.StreamHandler(sys.stderr), RotatingFileHandler(path, maxBytes=MAX_BYTES, backupCount=KEPT)
    path.chmod(0o600)
    file.setLevel(level.upper())
    screen.setLevel(max(logging.INFO, file.level))
    loggers = [logging.getLogger(name) for name in NAMES]
    for handler in (screen, file):
        handler.setFormatter(shape)
        for logger in loggers:
            logger.addHandler(handler)
    for logger in loggers:
        logger.setLevel(level.upper())
    try:
        yield
    finally:
        for handler in (screen, file):
            for logger in loggers:
                logger.removeHandler(handler)
            handler.close()
