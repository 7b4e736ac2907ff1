"""How good each version is on this site's held-out records: `state/scores.json`.

These numbers depend on the site's data and stay here: no message of the protocol has a place for them. They are
shown by `client status` and read by whoever runs the site.
"""

import json
from pathlib import Path
from typing import Any

from secureproto_client.durable import replace
from secureproto_client.learner import Scored


def read(path: Path) -> dict[str, dict[str, Scored]]:
    """Scores by study and model name (`12`, `12-local`); none in a damaged or missing file: they can be had again."""
    try:
        found: Any = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def note(path: Path, study: str, model: str, scored: Scored | None) -> None:
    """Keep the scores of a model; None (nothing held out) is not kept."""
    if scored is None:
        return
    known = read(path)
    known.setdefault(study, {})[model] = scored
    replace(path, json.dumps(known, indent=1, sort_keys=True).encode())
