"""A federation with a study that real sites can train for."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from secureproto_server import studying
from support.federation import Federation, federation
from support.site_process import ClientSite
from support.study_toml import Table, dumps, tabular_table


def create_study(fed: Federation, *, quorum: int, total: int, **sections: Table) -> None:
    """The study of `support.study_toml`, for so many sites and rounds; `sections` take the place of its own."""
    table = tabular_table()
    del table["stopping"], table["bounds"]
    table["rounds"] = {"total": total, "quorum": quorum, "deadline": "5m"}
    path = fed.directory / "study.toml"
    path.write_bytes(dumps({**table, **sections}))
    studying.send(fed.desk, studying.prepare(fed.desk, path, allowed_factories=("support.tiny_model:factory",)))


def open_rounds(fed: Federation, rounds: int) -> None:
    """Ask for rounds, one after the other."""
    fed.desk.post("studies/small/rounds", {"rounds": rounds}, meaning="open rounds")


@contextmanager
def one_site(directory: Path, *, total: int = 1) -> Iterator[tuple[Federation, ClientSite]]:
    """A federation of one enrolled site, with its study."""
    with federation(directory) as fed:
        site = ClientSite(fed, "cleveland")
        site.prepare()
        site.enrol()
        create_study(fed, quorum=1, total=total)
        yield fed, site
