"""The root documents that a site has seen, on disk: the whole chain, checked again at every start.

Invariants: the chain begins at the document whose digest the invitation brought; every next one was accepted by
`trust.advance`; `root.json` is the newest.
"""

import logging
from collections.abc import Callable

from secureproto.errors import IntegrityBroken, Misconfigured
from secureproto_client.durable import replace
from secureproto_client.identity import SiteFile
from secureproto_client.paths import SitePaths
from secureproto_client.trust import Trust, advance, changes, pinned

log = logging.getLogger(__name__)


def store(paths: SitePaths, trust: Trust) -> None:
    """Keep a version, durably, before anything is believed because of it."""
    replace(paths.roots / f"{trust.document.version}.json", trust.signed)
    replace(paths.root_document, trust.signed)


def load(paths: SitePaths, site: SiteFile) -> Trust:
    """The newest root document, through the whole chain.

    Raises:
        Misconfigured: there is none.
        IntegrityBroken: a link of the chain does not hold.
    """
    versions = sorted(int(path.stem) for path in paths.roots.glob("[0-9]*.json"))
    if not versions:
        raise Misconfigured(f"{paths.roots}: no root document", hint="enrol first, or restore the backup")
    trust = pinned((paths.roots / f"{versions[0]}.json").read_bytes(), site.root_digest)
    for version in versions[1:]:
        trust = advance(trust, (paths.roots / f"{version}.json").read_bytes())
    return trust


def follow(paths: SitePaths, trust: Trust, version: int, fetch: Callable[[int], bytes]) -> Trust:
    """The root document of `version`, step by step from `trust`; each change is shown in the log and kept.

    `fetch` gives the signed document of a version.

    Raises:
        IntegrityBroken: the server names an older version than the site has, or a step does not hold.
    """
    if version < trust.document.version:
        raise IntegrityBroken(
            f"the server has root document {version}, this site has {trust.document.version}",
            hint="the server was rolled back: call the operator",
        )
    while trust.document.version < version:
        following = advance(trust, fetch(trust.document.version + 1))
        for line in changes(trust.document, following.document):
            log.warning("root document %d: %s", following.document.version, line)
        store(paths, following)
        trust = following
    return trust
