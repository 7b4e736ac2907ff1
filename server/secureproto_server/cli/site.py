"""`secureproto site`: invite, approve, deny, list, suspend, resume, revoke."""

from pathlib import Path

import click

from secureproto.cli.output import Form, emit, output_option, say
from secureproto.clock import utc_text
from secureproto_server import invitations, watching
from secureproto_server.cli.options import (
    confirm_option,
    desk_options,
    dry_run_option,
    open_desk,
    reason_option,
    require_confirmed,
)
from secureproto_server.desk import Desk


@click.command()
@click.argument("site")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), required=True, help="The invitation's file.")
@click.option("--hours", type=click.IntRange(1, 24), default=24, show_default=True, help="How long it can be used.")
@desk_options
@dry_run_option
@output_option
def invite(site: str, out: Path, hours: int, operator: Path, credentials: Path | None, dry_run: bool,
           output: Form) -> None:  # fmt: skip
    """Make a one-time invitation for SITE; hand it over by a way that keeps a secret."""
    desk = open_desk(operator, credentials)
    if dry_run:
        emit({"would_invite": site, "hours": hours, "out": str(out)}, output)
        return
    token = invitations.invite(desk, site=site, hours=hours, out=out)
    if site in (entry.site for entry in desk.refresh_root().sites):
        say(f"{site} is enrolled already: approving this replaces its keys")
    say(f"the invitation is in {out} (mode 0600): whoever has it can ask to be {site}")
    emit({"site": site, "expires": utc_text(token.expires), "root_digest": token.root_digest}, output)


@click.command()
@click.argument("site")
@click.option("--fingerprint", required=True, help="As the site reads it to you: all of it, or its first 16 digits.")
@desk_options
@dry_run_option
@output_option
def approve(site: str, fingerprint: str, operator: Path, credentials: Path | None, dry_run: bool,
            output: Form) -> None:  # fmt: skip
    """Put SITE on the roster, after comparing the fingerprint of its keys with the site by telephone."""
    desk = open_desk(operator, credentials)
    request = invitations.waiting(desk, site, fingerprint)
    if dry_run:
        emit({"would_approve": site, "fingerprint": request.fingerprint()}, output)
        return
    emit(invitations.approve(desk, request), output)


@click.command()
@click.argument("site")
@reason_option
@desk_options
@dry_run_option
@output_option
def deny(site: str, reason: str, operator: Path, credentials: Path | None, dry_run: bool, output: Form) -> None:
    """Refuse the request of SITE that waits."""
    desk = open_desk(operator, credentials)
    if dry_run:
        emit({"would_deny": site}, output)
        return
    emit(desk.post(f"enrolments/{site}/deny", {"reason": reason}, meaning=f"deny site {site}"), output)


@click.command("list")
@desk_options
@output_option
def list_(operator: Path, credentials: Path | None, output: Form) -> None:
    """List enrolled sites, and requests that wait."""
    rows = open_desk(operator, credentials).get("sites", meaning="list sites")
    emit([watching.shown(row) for row in rows], output)


@click.command()
@click.argument("site")
@confirm_option
@reason_option
@desk_options
@dry_run_option
@output_option
def revoke(site: str, confirm: str, reason: str, operator: Path, credentials: Path | None, dry_run: bool,
           output: Form) -> None:  # fmt: skip
    """Revoke the keys of SITE, at once and for good: it takes part again only with new keys."""
    require_confirmed(site, confirm)
    emit(_change(open_desk(operator, credentials), site, "revoke", reason, dry_run), output)


@click.command()
@click.argument("site")
@confirm_option
@reason_option
@desk_options
@dry_run_option
@output_option
def suspend(site: str, confirm: str, reason: str, operator: Path, credentials: Path | None, dry_run: bool,
            output: Form) -> None:  # fmt: skip
    """Shut SITE out at once, until `site resume`."""
    require_confirmed(site, confirm)
    emit(_change(open_desk(operator, credentials), site, "suspend", reason, dry_run), output)


@click.command()
@click.argument("site")
@reason_option
@desk_options
@dry_run_option
@output_option
def resume(site: str, reason: str, operator: Path, credentials: Path | None, dry_run: bool, output: Form) -> None:
    """Let a suspended SITE take part again."""
    emit(_change(open_desk(operator, credentials), site, "resume", reason, dry_run), output)


def _change(desk: Desk, site: str, verb: str, reason: str, dry_run: bool) -> dict[str, object]:
    if dry_run:
        return {"site": site, f"would_{verb}": True}
    changed: dict[str, object] = desk.post(f"sites/{site}/{verb}", {"reason": reason}, meaning=f"{verb} site {site}")
    return changed
