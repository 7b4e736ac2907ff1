"""Makes tests/vectors/audit: one file an attack on the log, with the entry that must be named.

    cd tests && python -m support.audit_vectors

A vector: `what` was done, the log's `origin` and public `keys`, the `log` as a file, the checkpoints that the
verifier `witnessed`, and whether it `holds`; if not, the first `sequence` that fails and what the message `says`.
"""

import json
from base64 import urlsafe_b64encode
from pathlib import Path

from support.audit_encoder import Fields, Key, encode, entry, entry_line, leaf_hex, note, note_line, signed

ORIGIN = "secureproto/v1/audit/heart"
SERVER, STRANGER = Key(0x5EED), Key(0xBAD)
EVERY = 4  # entries between checkpoints
COUNT = 10
VECTORS = Path(__file__).resolve().parents[1] / "vectors" / "audit"

HONEST: list[Fields] = [entry(i) for i in range(COUNT)]


def log(entries: list[Fields], leaves: dict[int, str] | None = None) -> list[str]:
    """Lines of a log whose checkpoints are those of HONEST: what a thief without the key can make."""
    return lines([encode(fields) for fields in entries], [encode(fields) for fields in HONEST], leaves or {})


def lines(data: list[bytes], sealed: list[bytes], leaves: dict[int, str]) -> list[str]:
    """Entry lines of `data` with checkpoints over `sealed` at every EVERY entries and at its end."""
    made: list[str] = []
    for i, item in enumerate(data):
        made.append(entry_line(item, leaves.get(i)))
        size = i + 1
        if (size % EVERY == 0 and size < len(sealed)) or size == len(data):
            made.append(note_line(note(SERVER, ORIGIN, sealed[: min(size, len(sealed))])))
    return made


def own(entries: list[Fields]) -> list[str]:
    """Lines of a log signed as it stands: what the server itself can make."""
    data = [encode(fields) for fields in entries]
    return lines(data, data, {})


def kept(count: int) -> str:
    """The checkpoint that a site kept of HONEST."""
    return note(SERVER, ORIGIN, [encode(fields) for fields in HONEST[:count]])


def changed(index: int, **changes: object) -> list[Fields]:
    """HONEST with one entry changed."""
    return [fields | changes if i == index else fields for i, fields in enumerate(HONEST)]


def renumbered(entries: list[Fields]) -> list[Fields]:
    """With the gaps closed."""
    return [fields | {"sequence": i, "time": 1_790_000_000 + i} for i, fields in enumerate(entries)]


def vector(what: str, made: list[str], sequence: int, says: str, *, witnessed: tuple[str, ...] = ()) -> Fields:
    """One vector; a sequence of -1: it holds."""
    return {
        "what": what,
        "origin": ORIGIN,
        "keys": [urlsafe_b64encode(SERVER.spki).rstrip(b"=").decode()],
        "log": "".join(made),
        "witnessed": list(witnessed),
        "holds": sequence < 0,
        "sequence": sequence,
        "says": says,
    }


def whole() -> dict[str, Fields]:
    """Logs that hold, and the limits of what can be found."""
    return {
        "honest": vector("nothing", log(HONEST), -1, "", witnessed=(kept(3), kept(8), kept(10))),
        "empty_log": vector(
            "nothing was logged yet",
            [note_line(signed(SERVER, ORIGIN, f"{ORIGIN}\n0\n47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\n"))],
            -1,
            "",
        ),
        "truncated_to_an_older_checkpoint_unwitnessed": vector(
            "entries 8 and 9 cut off with their checkpoint; nobody kept a later one, so nothing shows it",
            log(HONEST)[:10],
            -1,
            "",
        ),
        "witness_lines_are_kept": vector(
            "a witness's signature line stands behind the log's",
            [*log(HONEST)[:-1], note_line(kept(10) + STRANGER.line("site/cleveland", "another text\n"))],
            -1,
            "",
        ),
    }


def edits() -> dict[str, Fields]:
    """One entry changed."""
    leaf_5 = {5: leaf_hex(encode(HONEST[5]))}
    not_canonical = encode(HONEST[5]).replace(b'"role":', b'"role": ')
    spaced = log(HONEST)
    spaced[6] = entry_line(not_canonical)
    return {
        "edited_entry": vector("who uploaded", log(changed(5, actor="site-x"), leaf_5), 5, "it was changed"),
        "edited_first_entry": vector(
            "entry 0", log(changed(0, actor="x"), {0: leaf_hex(encode(HONEST[0]))}), 0, "it was changed"
        ),
        "edited_last_entry": vector(
            "entry 9", log(changed(9, actor="x"), {9: leaf_hex(encode(HONEST[9]))}), 9, "it was changed"
        ),
        "edited_leaf_hash": vector("only the leaf hash", log(HONEST, {6: "0" * 64}), 6, "it was changed"),
        "edited_entry_with_its_leaf_hash": vector(
            "who uploaded, and the leaf hash redone", log(changed(5, actor="site-x")), 4, "not what was signed at 8"
        ),
        "entry_moved_to_another_study": vector(
            "study of an entry", log(changed(2, study="lungs"), {2: leaf_hex(encode(HONEST[2]))}), 2, "changed"
        ),
        "entry_set_back_in_time": vector("time", own(changed(5, time=1_700_000_000)), 5, "older than"),
        "entry_with_unknown_action": vector("action", own(changed(5, action="upload_hidden")), 5, "no entry"),
        "entry_not_canonical": vector("a space", spaced, 5, "no entry"),
    }


def cuts() -> dict[str, Fields]:
    """Entries dropped, added, moved."""
    without = [fields for i, fields in enumerate(HONEST) if i != 5]
    swapped = [*HONEST[:5], HONEST[6], HONEST[5], *HONEST[7:]]
    forged = entry(6, actor="site-forged")
    return {
        "dropped_entry": vector("entry 5", log(without), 5, "missing: entry 6"),
        "dropped_entry_renumbered": vector("entry 5, gap closed", log(renumbered(without)), 4, "signed at 8"),
        "dropped_entry_renumbered_with_old_leaf_hashes": vector(
            "entry 5, gap closed, leaf hashes as they were",
            log(renumbered(without), {i: leaf_hex(encode(HONEST[i + 1])) for i in range(5, 9)}),
            5,
            "it was changed",
        ),
        "repeated_entry": vector("entry 5 twice", log([*HONEST[:6], *HONEST[5:]]), 5, "two entries"),
        "replayed_entry": vector(
            "entry 1 again at 7", log([*HONEST[:7], HONEST[1], *HONEST[7:]]), 7, "entry 1 stands"
        ),
        "inserted_entry": vector("a forged entry 6", log([*HONEST[:6], forged, *HONEST[6:]]), 6, "two entries"),
        "inserted_entry_renumbered": vector(
            "a forged entry 6, the rest moved on", log(renumbered([*HONEST[:6], forged, *HONEST[6:]])), 4, "at 8"
        ),
        "reordered_entries": vector("5 and 6", log(swapped), 5, "missing: entry 6"),
        "reordered_entries_renumbered": vector("5 and 6", log(renumbered(swapped)), 4, "signed at 8"),
        "appended_unsigned_entry": vector(
            "an entry behind the last checkpoint", [*log(HONEST), entry_line(encode(entry(10)))], 10, "no checkpoint"
        ),
    }


def ends() -> dict[str, Fields]:
    """The end cut off, or another history."""
    other = [*HONEST[:6], *renumbered([*HONEST[:6], entry(6, actor="site-other"), *HONEST[7:]])[6:]]
    return {
        "truncated_entries": vector("everything from entry 9 on", log(HONEST)[:-2], 8, "no checkpoint covers it"),
        "truncated_before_checkpoint": vector("entry 9 alone", [*log(HONEST)[:-2], log(HONEST)[-1]], 9, "missing"),
        "truncated_to_an_older_checkpoint": vector(
            "entries 8 and 9 with their checkpoint", log(HONEST)[:10], 8, "missing", witnessed=(kept(9),)
        ),
        "truncated_line": vector("half of the last line", [*log(HONEST)[:-2], log(HONEST)[-2][:50]], 9, "line 12"),
        "empty_file": vector("everything", [], 0, "no checkpoint"),
        "fork_shown_to_a_witness": vector(
            "the server signed a second history from entry 6 on",
            own(other),
            4,
            "a fork",
            witnessed=(kept(4), kept(9)),
        ),
        "fork_shown_to_a_witness_of_nothing_else": vector(
            "as above; the witness agrees with nothing before", own(other), 0, "a fork", witnessed=(kept(9),)
        ),
    }


def checkpoints() -> dict[str, Fields]:
    """Something wrong with a checkpoint."""
    data = [encode(fields) for fields in HONEST]
    entries = [entry_line(item) for item in data]
    good = kept(10)
    body = good.partition("\n\n")[0] + "\n"
    flipped = good[:-8] + ("A" if good[-8] != "A" else "B") + good[-7:]
    return {
        "checkpoint_of_another_log": vector(
            "origin", [*entries, note_line(note(SERVER, ORIGIN + "x", data))], 0, "it is of the log"
        ),
        "checkpoint_by_an_unknown_key": vector(
            "key", [*entries, note_line(note(STRANGER, ORIGIN, data))], 0, "not signed by a key"
        ),
        "checkpoint_signature_flipped": vector("signature", [*entries, note_line(flipped)], 0, "does not verify"),
        "checkpoint_spoilt_by_a_second_line_of_the_log": vector(
            "a line of the log's key over another text",
            [*entries, note_line(good + SERVER.line(ORIGIN, "another text\n"))],
            0,
            "does not verify",
        ),
        "checkpoint_with_an_extension_line": vector(
            "a fourth line", [*entries, note_line(signed(SERVER, ORIGIN, body + "more\n"))], 0, "three lines"
        ),
        "checkpoint_out_of_place": vector(
            "the checkpoint of 10 entries behind the eighth",
            [*entries[:8], note_line(good), *entries[8:]],
            8,
            "missing",
        ),
        "checkpoint_too_late": vector(
            "that of 4 behind the fifth", [*entries[:5], note_line(kept(4)), *entries[5:]], 4, "stands before"
        ),
        "receipts_tree_swapped": vector(
            "a checkpoint over the same entries in another order",
            [*entries, note_line(note(SERVER, ORIGIN, data[::-1]))],
            0,
            "not what was signed at 10",
        ),
    }


def vectors() -> dict[str, Fields]:
    """All of them, by file name."""
    return whole() | edits() | cuts() | ends() | checkpoints()


def main() -> None:
    """Write the files anew."""
    VECTORS.mkdir(parents=True, exist_ok=True)
    for path in VECTORS.glob("*.json"):
        path.unlink()
    for name, value in vectors().items():
        (VECTORS / f"{name}.json").write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
