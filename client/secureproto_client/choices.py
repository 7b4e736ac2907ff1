"""What a site chose to use of a study's last version: `state/choices.json`.

Names and losses depend on the site's data and stay here, as scores do: no message of the protocol has a place for
them, and the log tells of them at debug level only. `client status` shows them.
"""

import json
from pathlib import Path
from typing import Any

from secureproto_client.durable import replace
from secureproto_client.learner import Chosen
from secureproto_client.models import ModelStore

Told = dict[str, Any]


def read(path: Path) -> dict[str, Told]:
    """By study: `version`, the `model` chosen of it, the mean `log_loss` of each candidate, on how many records
    (`judged_on`) of how many `classes`. None in a damaged or missing file: a choice can be made again."""
    try:
        found: Any = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def note(path: Path, study: str, model: str, *, version: int, chosen: Chosen) -> None:
    """Keep what was chosen of a version, in place of what was before."""
    known = read(path)
    known[study] = {
        "version": version,
        "model": model,
        "judged_on": chosen.judged,
        "classes": chosen.classes,
        "log_loss": {kind: round(loss, 6) for kind, loss in chosen.losses.items()},
    }
    replace(path, json.dumps(known, indent=1, sort_keys=True).encode())


def made(path: Path, study: str, version: int) -> str | None:
    """The model that was chosen of that version; None when none was."""
    told = read(path).get(study)
    model = told.get("model") if isinstance(told, dict) and told.get("version") == version else None
    return model if isinstance(model, str) else None


def of_newest(path: Path, store: ModelStore) -> str | None:
    """The model that was chosen of the newest version in the store; None when none was."""
    names = store.names()
    return made(path, store.study, store.note(names[-1]).version) if names else None
