"""The root command `secureproto`, and the only place that turns errors into exit codes.

Verbs are entry points of the group `secureproto.commands`, named `noun.verb`; a module is loaded only when its
verb runs or its noun's help is asked for, so `secureproto --help` loads neither torch nor a database.

Exit codes: 0 ok, 1 failed, 2 usage or settings, 3 unavailable, 4 identity, 5 denied, 6 verification failed,
7 conflict or not found, 8 partial, 9 approval needed, 130 interrupted (errors.py draws the families).
"""

import os
import re
import sys
from importlib.metadata import EntryPoint, entry_points, requires
from io import TextIOWrapper
from pathlib import Path

import click

from secureproto import __version__
from secureproto.errors import SecureProtoError

GROUP = "secureproto.commands"
DISTRIBUTIONS = {"sklearn": "scikit-learn", "PIL": "pillow"}  # modules that are called otherwise than their package
EXTRAS = ("server", "client", "simulation", "ray")  # from the lightest on
REQUIREMENT = re.compile(r"(?P<name>[A-Za-z0-9._-]+).*; extra == .(?P<extra>[a-z]+).")

# One line a noun; a verb's line comes from its own docstring when the noun's help is asked for.
NOUNS = {
    "audit": "Read and verify the tamper-evident log.",
    "budget": "What privacy costs: plan noise and rounds before anyone signs.",
    "client": "Run a site: enrol, train, predict, keep models.",
    "client model": "The models this site holds: list, use, roll back, export.",
    "demo": "Four hospitals and a server on this machine, end to end.",
    "federation": "Found a federation: keys, certificates, root document.",
    "model": "Published models: list, export.",
    "round": "Open rounds and watch them.",
    "server": "Run the federation's server.",
    "simulate": "Compare the method with its peers on data at hand; is it worth joining?",
    "site": "Invite, approve and list sites.",
    "study": "Create and show studies.",
}


class Branch(click.Group):
    """A noun whose verbs are loaded from entry points on demand."""

    def __init__(self, path: str, verbs: dict[str, EntryPoint], **attrs: object) -> None:
        super().__init__(name=path.rpartition(" ")[2], help=NOUNS.get(path, ""), **attrs)  # type: ignore[arg-type]
        self._path = path
        self._verbs = verbs

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({name.partition(".")[0] for name in self._verbs})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in self._verbs:
            command = self._verbs[cmd_name].load()
            if not isinstance(command, click.Command):
                raise TypeError(f"{self._verbs[cmd_name].value} is not a command")
            return command
        prefix = cmd_name + "."
        below = {name[len(prefix) :]: entry for name, entry in self._verbs.items() if name.startswith(prefix)}
        return Branch(f"{self._path} {cmd_name}".strip(), below) if below else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows = [(name, self._line(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def _line(self, ctx: click.Context, name: str) -> str:
        known = NOUNS.get(f"{self._path} {name}".strip())
        command = None if known else self.get_command(ctx, name)
        return known or (command.get_short_help_str(limit=90) if command else "")


def build() -> click.Group:
    """The root command with every verb that is installed."""
    root = Branch("", {entry.name: entry for entry in entry_points(group=GROUP)})
    root.help = "Personalised federated learning that can prove what left the building."
    root.name = "secureproto"
    return click.version_option(__version__, prog_name="secureproto")(root)


def main() -> None:
    """Run one command and exit with its code."""
    _demand_streams()
    sys.exit(run(sys.argv[1:]))


def _demand_streams() -> None:
    """A stream that was closed is nobody's to read; one that cannot say ± says ? in its place, and does not fail."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - for as long as the process
        elif isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")


def run(arguments: list[str]) -> int:
    """Run one command; errors become one line on stderr, a hint, and an exit code."""
    try:
        code = build().main(arguments, prog_name="secureproto", standalone_mode=False)
    except click.UsageError as error:
        return _tell(error.format_message(), _usage_hint(error), 2)
    except click.ClickException as error:
        return _tell(error.format_message(), "", error.exit_code)
    except SecureProtoError as error:
        return _tell(error.message, error.hint, error.exit_code)
    except (KeyboardInterrupt, click.Abort):
        return _tell("interrupted", "", 130)
    except BrokenPipeError:
        # The reader has gone (`| head`): nothing more to say, and nothing more must be written at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        where = f": {error.filename}" if error.filename else ""
        return _tell(f"{error.strerror or type(error).__name__}{where}", "", 1)
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and error.name and not error.name.startswith("secureproto"):
            return _tell(f"{error.name} is not installed, and this command needs it", _extra_hint(error.name), 2)
        if os.environ.get("SECUREPROTO_DEBUG"):
            raise
        return _tell(
            f"unexpected {type(error).__name__} in {_place(error)}",
            "a fault of this program: set SECUREPROTO_DEBUG=1 to see where, and report it",
            1,
        )
    return code if isinstance(code, int) else 0


def _tell(message: str, hint: str, code: int) -> int:
    click.echo(f"error: {message}", err=True)
    if hint:
        click.echo(f"hint: {hint}", err=True)
    return code


def _extra_hint(module: str) -> str:
    """The first of EXTRAS that brings a module, as pip is asked for it."""
    top = module.partition(".")[0]
    wanted = DISTRIBUTIONS.get(top, top).lower()
    known = [REQUIREMENT.match(text) for text in requires("secureproto") or ()]
    bringing = {found["extra"] for found in known if found and found["name"].lower() == wanted}
    extra = next((name for name in EXTRAS if name in bringing), "all")
    return f"pip install 'secureproto[{extra}]'; from a clone: pip install -e '.[{extra}]'"


def _usage_hint(error: click.UsageError) -> str:
    path = error.ctx.command_path if error.ctx else "secureproto"
    return f"{path} --help"


def _place(error: BaseException) -> str:
    """Module and line of the innermost frame: enough to report, and nothing of the values."""
    trace = error.__traceback__
    while trace and trace.tb_next:
        trace = trace.tb_next
    return f"{trace.tb_frame.f_globals.get('__name__', '?')}:{trace.tb_lineno}" if trace else "?"
