"""Inviting and approving sites, at the operator's desk.

The invitation's file holds the token (base64url of its canonical bytes): whoever has it can ask to be that site,
once; so it is mode 0600 and handed over by a way that keeps a secret. Approval signs the next root document here.
"""

from pathlib import Path
from typing import Any

from secureproto.crypto.envelope import verify_self_signed
from secureproto.crypto.keyfile import write_once
from secureproto.crypto.keys import PublicKey
from secureproto.errors import Conflict, NotFound
from secureproto.wire import base64url, canonical
from secureproto.wire.messages import EnrolmentRequest, InviteToken
from secureproto_server.desk import Desk
from secureproto_server.founding import check_name

SHORTEST = 16  # hex digits that may stand for a fingerprint: 64 bits, far beyond what one can make twice by trying


def invite(desk: Desk, *, site: str, hours: int, out: Path) -> InviteToken:
    """Ask for a token and write the invitation.

    Raises:
        Conflict: the file is there already. Misconfigured: no name of a site.
        Rejected, Unavailable: as the server says.
    """
    if out.exists():
        raise Conflict(f"{out} is there already", hint="name another file")
    check_name(site)
    body = canonical.encode({"site": site, "hours": hours})
    token = InviteToken.parse(desk.request("POST", "tokens", body, meaning=f"invite site {site}"))
    write_once(out, base64url.encode(token.canonical()).encode() + b"\n")
    return token


def waiting(desk: Desk, site: str, fingerprint: str) -> EnrolmentRequest:
    """The request of a site that waits, if its keys have this fingerprint: computed here, from the keys themselves.

    The right one is never shown at the desk: it must come from the site, by telephone.

    Raises:
        NotFound: nobody of that name waits. Conflict: another fingerprint.
    """
    rows = desk.get("enrolments", meaning="list enrolments")
    found = [row for row in rows if row["site"] == site and row["state"] == "pending"]
    if not found:
        raise NotFound(f"no request of {site} waits for approval", hint="secureproto site list")
    envelope = base64url.decode(found[-1]["request"])
    request = verify_self_signed(envelope, EnrolmentRequest, lambda r: PublicKey.from_b64(r.keys.signing))
    given = fingerprint.lower().replace(" ", "").replace(":", "")
    if request.site != site or len(given) < SHORTEST or not request.fingerprint().startswith(given):
        raise Conflict(
            f"the keys that {site} sent do not have this fingerprint",
            hint=f"have it read again (at least {SHORTEST} digits); if it is right, somebody else asked: site deny",
        )
    return request


def approve(desk: Desk, request: EnrolmentRequest) -> dict[str, Any]:
    """Sign the next root document and hand it to the server.

    Raises:
        Conflict, Rejected, Unavailable: as the server says.
    """
    envelope = desk.root_with_site(request.site, request.keys)
    body = {"fingerprint": request.fingerprint(), "root": base64url.encode(envelope)}
    meaning = f"approve site {request.site}"
    answer: dict[str, Any] = desk.post(f"enrolments/{request.site}/approve", body, meaning=meaning)
    desk.refresh_root()
    return answer
