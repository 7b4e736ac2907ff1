"""The server's command, for a test's own process: `python -m support.serve DIRECTORY [options]`."""

import sys

from secureproto.cli.root import run

if __name__ == "__main__":
    sys.exit(run(["server", "run", *sys.argv[1:]]))
