"""Two rounds at a ledger file, in a process that meets its end at a counted moment: `PATH FIRST KILL_AT`.

A moment is right before or right after a statement at the database, or a step of the procedure. Each step is told on
a line of its own, after it: `reserved`, …, `released BYTES`. A round is taken up from what the ledger says, the way a
client does: sealed bytes lie in a file beside the ledger before they are committed.
"""

import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from secureproto.errors import Conflict
from secureproto.privacy.ledger.charging import Charging
from secureproto.privacy.ledger.state import Phase, Reservation
from secureproto_client.ledger.file import SqliteLedger
from secureproto_client.ledger.schema import Expected
from support.ledgers import NOW, SERVER, SITE, claim, countersignature, counting, opened

ROUNDS = 2


class Moments:
    """Counts moments, and ends the process at one of them as a power cut does."""

    passed, kill_at = 0, -1

    @classmethod
    def one(cls) -> None:
        cls.passed += 1
        if cls.passed - 1 == cls.kill_at:
            os.kill(os.getpid(), signal.SIGKILL)


class CountedLedger(SqliteLedger):
    """A ledger whose statements are moments."""

    def _run(self, statement: str, *values: object) -> list[Any]:
        Moments.one()
        found = super()._run(statement, *values)
        Moments.one()
        return found


def say(text: str) -> None:
    """One line, at once, and a moment before and after it."""
    Moments.one()
    os.write(1, f"{text}\n".encode())
    Moments.one()


def countersign(charging: Charging, one: Reservation) -> None:
    """By a server whose key is in this process."""
    charging.countersign(one.id, SERVER.public, countersignature(charging.countersignable(one.id)))


def play(path: Path, number: int) -> None:
    """One round, from wherever it stands to its release."""
    ledger = CountedLedger.open(path, Expected(SITE))
    charging = Charging(ledger)
    attempts = charging.ledger.state.attempts(claim(number))
    last = attempts[-1] if attempts else None
    if last is not None and last.phase is Phase.COMMITTED:
        sealed = _sealed(path, last).read_bytes()
        say(f"released {number} {charging.resend(last.id, sealed).hex()}")
        ledger.close()
        return
    attempt = last.claim.attempt + (last.phase is Phase.BEGUN) if last else 1
    one = charging.reserve(claim(number, attempt), counting(), NOW)
    say(f"reserved {number}")
    countersign(charging, one)
    say(f"countersigned {number}")
    charging.begin(one.id)
    say(f"begun {number}")
    sealed = os.urandom(8)
    _sealed(path, one).write_bytes(sealed)
    say(f"sealed {number}")
    grant = charging.commit(one.id, sealed)
    say(f"committed {number}")
    say(f"released {number} {grant.release().hex()}")
    ledger.close()


def _sealed(path: Path, one: Reservation) -> Path:
    return path.with_name(f"{one.id}.sealed")


def main(path: Path, kill_at: int) -> None:
    """Open or make the ledger, and play the rounds; at its end the number of moments."""
    Moments.kill_at = kill_at
    with suppress(Conflict):
        SqliteLedger.create(path, opened()).close()
    say("made")
    for number in range(ROUNDS):
        play(path, number)
    say(f"moments {Moments.passed}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
