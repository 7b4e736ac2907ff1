"""Which of a study's models is in use: `models/<study>/current.json`, replaced as a whole.

Invariants: it names a model that was in the store when it was written; a new version takes its place by itself only
while no person has chosen one; what was in use before is remembered for going back.
"""

from typing import ClassVar

from secureproto.errors import Conflict, IntegrityBroken, NotFound, Rejected
from secureproto.wire.messages import Message
from secureproto_client.durable import replace
from secureproto_client.models import ModelStore

MAX_HISTORY = 50  # roll-backs that are remembered


class Choice(Message):
    """The model in use. `held`: a person chose it."""

    LABEL: ClassVar[str] = "secureproto/v1/model-choice"
    current: str
    held: bool
    history: tuple[str, ...]  # what was in use before, the latest last


class Pointer:
    """The choice of model of one study's store."""

    def __init__(self, store: ModelStore) -> None:
        self._store = store
        self._path = store.directory / "current.json"

    def choice(self) -> Choice | None:
        """The choice in force; None before the first version. Raises IntegrityBroken when the file is damaged."""
        try:
            return Choice.parse(self._path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, Rejected):
            raise IntegrityBroken(f"{self._path} is damaged", hint="choose again: client model use NAME") from None

    def current(self) -> str:
        """The model in use. Raises NotFound before the first version."""
        choice = self.choice()
        if choice is None:
            raise NotFound(f"no model of {self._store.study} yet", hint="`client run` receives one")
        return choice.current

    def offer(self, name: str) -> None:
        """Put a new model to use, unless a person holds another one."""
        choice = self.choice()
        if choice is None or not choice.held:
            self._point(choice, name, held=False)

    def use(self, name: str) -> None:
        """Put a model to use because a person says so. Raises NotFound."""
        self._store.note(name)
        self._point(self._readable(), name, held=True)

    def follow(self, chosen: str | None = None) -> str:
        """Let go of a person's choice: `chosen` is in use again, without it the newest model.

        Raises:
            NotFound: there is none.
        """
        names = self._store.names()
        if not names:
            raise NotFound(f"no model of {self._store.study} yet", hint="`client run` receives one")
        name = chosen if chosen in names else names[-1]
        self._point(self._readable(), name, held=False)
        return name

    def roll_back(self) -> str:
        """Go back to what was in use before, and hold it. Raises Conflict when there is nothing."""
        choice = self.choice()
        usable = [name for name in choice.history if self._store.has(name)] if choice else []
        if not usable:
            raise Conflict(
                f"no earlier model of {self._store.study} was in use here", hint="choose one: client model use NAME"
            )
        self._write(Choice(current=usable[-1], held=True, history=tuple(usable[:-1])))
        return usable[-1]

    def _point(self, before: Choice | None, name: str, *, held: bool) -> None:
        history = before.history if before else ()
        if before and before.current != name:
            history = (*history, before.current)[-MAX_HISTORY:]
        self._write(Choice(current=name, held=held, history=history))

    def _write(self, choice: Choice) -> None:
        replace(self._path, choice.canonical())

    def _readable(self) -> Choice | None:
        """The choice, or none when it cannot be read: choosing again is how a damaged file is mended."""
        try:
            return self.choice()
        except IntegrityBroken:
            return None
