"""The installed program, for a test's own process: `python -m support.program client run DIR`."""

import sys

from secureproto.cli.root import run

if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
