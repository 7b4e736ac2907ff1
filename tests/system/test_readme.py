"""The README works as written: its blocks are run in order, by the installed program, over real sockets."""

import os
import sys
from pathlib import Path

import pytest

from secureproto_client.demo.stage import DEFAULT_PORTS, free_ports
from support.readme import Shell, blocks
from support.tree import ROOT

pytestmark = pytest.mark.system


@pytest.mark.timeout(900)
def test_every_command_of_the_readme_runs(tmp_path: Path) -> None:
    ports = dict(zip(DEFAULT_PORTS, free_ports(len(DEFAULT_PORTS)), strict=True))
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("SECUREPROTO_", "CREDENTIALS"))},
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HOME": str(tmp_path / "home"),
        # the ports of the README may be taken on this machine: the settings' own variables move them
        **{f"SECUREPROTO_SERVER_{name.upper()}__PORT": str(port) for name, port in ports.items()},
        "SECUREPROTO_OPERATOR_ADMIN_URL": f"https://127.0.0.1:{ports['admin']}",
    }
    (tmp_path / "home").mkdir()
    shell = Shell(tmp_path, environment)
    try:
        for block in blocks(ROOT / "README.md"):
            block = block.replace(f":{DEFAULT_PORTS['metrics']}/", f":{ports['metrics']}/")
            code, output = shell.run(block)
            assert code == 0, f"{block}\n--- ended with {code} and said:\n{output}"
            assert "Traceback" not in output
        predictions = (tmp_path / "predictions.csv").read_text().splitlines()
        assert len(predictions) > 250
    finally:
        shell.close()
