"""Which ledgers speak of the same records: a data set inherits its ancestors' events, and a new id must be earned.

Versions, subsets and unions share records with what they were made from. Data sets without parents are declared to
share none with each other, so two ledgers can speak of one record only if they descend from a common one of those:
their `roots` meet. `family` is all such ledgers, each once, on however many ways it is reached. It holds descendants
too: what a subset releases is released of its parent's records.
Source: PRIVACY.md, "Ledger".
"""

from collections.abc import Iterable, Mapping

from secureproto.crypto.keys import PublicKey
from secureproto.errors import IntegrityBroken, PolicyDenied
from secureproto.privacy.ledger.entries import Declaration, Opened, Origin
from secureproto.privacy.ledger.seam import Ledger
from secureproto.wire import base64url


def check_opening(opened: Opened, *, officers: Mapping[str, PublicKey], others: Iterable[Ledger]) -> None:
    """Check that a ledger may begin like this, beside `others`, all that the site has. `officers` by key id.

    Raises:
        PolicyDenied: "first" beside others, or declared by a key that is not a privacy officer's.
        IntegrityBroken: the signature does not verify, or a parent is not there as it was named.
    """
    known = list(others)
    if opened.origin is Origin.FIRST and known:
        raise PolicyDenied(
            f"site {opened.site} has {len(known)} data sets already: a new one is not its first",
            reasons=("data_set_not_first",),
            hint="name the data sets it was made from, or let the privacy officer sign that no record is shared",
        )
    if opened.origin is Origin.DECLARED:
        key = officers.get(opened.officer)
        if key is None:
            raise PolicyDenied(
                f"key {opened.officer[:16]} is not that of a privacy officer of this site",
                reasons=("data_set_not_declared",),
            )
        said = Declaration(site=opened.site, data_set=opened.data_set)
        key.verify(Declaration.LABEL, said.canonical(), base64url.decode(opened.signature))
    for each in (opened, *(ledger.state.opened for ledger in known)):
        _check_parents(each, known)


def family(own: Ledger, others: Iterable[Ledger]) -> tuple[Ledger, ...]:
    """`own` and those of `others` that may speak of its records, each once.

    Raises:
        IntegrityBroken: an ancestor is missing or went back, or two differ that should be one file.
    """
    known = {own.state.opened.ledger: own}
    for ledger in others:
        twin = known.setdefault(ledger.state.opened.ledger, ledger)
        if twin.state.head != ledger.state.head:
            raise IntegrityBroken(
                f"two copies of the ledger of data set {ledger.state.opened.data_set[:16]} differ",
                hint="a ledger was copied and both were written to: keep both, and call the privacy officer",
            )
    everyone = list(known.values())
    for ledger in everyone:
        _check_parents(ledger.state.opened, everyone)
    parents = _parents(everyone)
    mine = roots(own.state.opened.data_set, parents)
    return tuple(ledger for ledger in everyone if mine & roots(ledger.state.opened.data_set, parents))


def roots(data_set: str, parents: Mapping[str, Iterable[str]]) -> frozenset[str]:
    """The ancestors (itself included) that have no parents."""
    seen, found, open_ = {data_set}, set[str](), [data_set]
    while open_:
        each = open_.pop()
        above = set(parents.get(each, ()))
        if not above:
            found.add(each)
        open_ += above - seen
        seen |= above
    return frozenset(found)


def _parents(ledgers: Iterable[Ledger]) -> dict[str, set[str]]:
    parents: dict[str, set[str]] = {}
    for ledger in ledgers:
        opened = ledger.state.opened
        parents.setdefault(opened.data_set, set()).update(parent.data_set for parent in opened.parents)
    return parents


def _check_parents(opened: Opened, ledgers: Iterable[Ledger]) -> None:
    for parent in opened.parents:
        those = [ledger for ledger in ledgers if ledger.state.opened.data_set == parent.data_set]
        if not those:
            raise IntegrityBroken(
                f"data set {opened.data_set[:16]} was made from {parent.data_set[:16]}, whose ledger is not here",
                hint="put that ledger back: what it spent counts for this data set too",
            )
        if not any(ledger.find(parent.head) for ledger in those):
            raise IntegrityBroken(
                f"the ledger of data set {parent.data_set[:16]} went back: it lacks the head from which"
                f" {opened.data_set[:16]} began",
                hint="an older copy was put back: restore the newest, or recover it from the server's mirror",
            )
