"""Random harm to an exported log is found, and the entry that is named is the one that was harmed, or the first
behind the last checkpoint that holds when the harm was covered up as far as can be without the log's key.
"""

import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secureproto.audit.entries import Entry
from secureproto.audit.export import LogBroken, Logged, Record, SignedCheckpoint, lines, read
from secureproto.audit.merkle import leaf_hash
from secureproto.audit.verify import Report, verify_records
from support.audit_logs import KEYS, ORIGIN, events, last_checkpoint, make_log

COUNT, EVERY = 11, 4
RECORDS = make_log(events(COUNT), every=EVERY)
LINES = list(lines(RECORDS))
MORE = [*LINES, b"\n", b"{}\n", b'{"checkpoint":""}\n']
KEPT = last_checkpoint(RECORDS)
PLACES = [i for i, record in enumerate(RECORDS) if isinstance(record, Logged)]


def verify(file: bytes, *witnessed: str) -> Report:
    return verify_records(read(io.BytesIO(file)), origin=ORIGIN, keys=KEYS, witnessed=witnessed)


def entries_before(line: int) -> int:
    return sum(isinstance(record, Logged) for record in RECORDS[:line])


def checkpoint_before(sequence: int) -> int:
    return sequence // EVERY * EVERY


@given(st.sampled_from(range(len(LINES))), st.data())
@settings(max_examples=300)
def test_any_byte_changed_is_found_at_its_entry(line: int, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(LINES[line]) - 1))
    value = data.draw(st.integers(0, 255).filter(lambda value: value != LINES[line][place]))
    harmed = bytearray(LINES[line])
    harmed[place] = value
    with pytest.raises(LogBroken) as caught:
        verify(b"".join([*LINES[:line], bytes(harmed), *LINES[line + 1 :]]))
    sequence = entries_before(line)
    if isinstance(RECORDS[line], SignedCheckpoint):
        # a checkpoint seals the entries since the one before it, or its line stands where the next entry should
        assert caught.value.sequence in (checkpoint_before(sequence - 1), sequence)
    else:
        assert caught.value.sequence == sequence


@given(st.integers(0, len(b"".join(LINES)) - 1))
def test_any_cut_is_found_by_who_kept_the_last_checkpoint(length: int) -> None:
    with pytest.raises(LogBroken):
        verify(b"".join(LINES)[:length], KEPT)


@given(st.sampled_from(PLACES))
def test_a_dropped_entry_is_named(line: int) -> None:
    with pytest.raises(LogBroken, match="missing") as caught:
        verify(b"".join(LINES[:line] + LINES[line + 1 :]))
    assert caught.value.sequence == entries_before(line)


@given(st.sampled_from(PLACES), st.sampled_from(PLACES))
def test_an_entry_moved_is_named(source: int, target: int) -> None:
    moved = [line for i, line in enumerate(LINES) if i != source]
    moved.insert(target, LINES[source])
    if moved == LINES:
        assert verify(b"".join(moved), KEPT).size == COUNT
        return
    with pytest.raises(LogBroken) as caught:
        verify(b"".join(moved))
    first = min(i for i, (a, b) in enumerate(zip(moved, LINES, strict=True)) if a != b)
    assert caught.value.sequence in (entries_before(first), entries_before(first) - 1)


@given(st.integers(0, COUNT - 1), st.integers(0, COUNT - 1))
def test_an_entry_repeated_is_named(sequence: int, behind: int) -> None:
    line = LINES[PLACES[sequence]]
    copied = [*LINES[: PLACES[behind] + 1], line, *LINES[PLACES[behind] + 1 :]]
    with pytest.raises(LogBroken) as caught:
        verify(b"".join(copied))
    assert caught.value.sequence == (sequence if sequence == behind else behind + 1)


@given(st.integers(0, COUNT - 1), st.text("abc", min_size=1, max_size=5))
def test_an_edit_with_its_leaf_hash_redone_is_found_behind_the_last_good_checkpoint(place: int, by: str) -> None:
    def edit(record: Logged) -> Record:
        data = Entry.parse(record.data).model_copy(update={"actor": by}).canonical()
        return Logged(data, leaf_hash(data))

    harmed = [
        edit(record) if i == PLACES[place] and isinstance(record, Logged) else record
        for i, record in enumerate(RECORDS)
    ]
    with pytest.raises(LogBroken, match="not what was signed") as caught:
        verify_records(harmed, origin=ORIGIN, keys=KEYS)
    assert caught.value.sequence == checkpoint_before(place)


@given(st.lists(st.sampled_from(MORE), max_size=6), st.booleans())
def test_any_mixture_of_lines_holds_only_if_it_is_a_prefix_of_the_log(mixture: list[bytes], whole: bool) -> None:
    file = b"".join(LINES if whole else []) + b"".join(mixture)
    try:
        report = verify(file)
    except LogBroken:
        return
    entries = [line for line in file.splitlines(keepends=True) if line.startswith(b'{"entry"')]
    assert entries == [LINES[place] for place in PLACES][: report.size]


@given(st.binary(max_size=200))
def test_bytes_that_are_no_log_raise_nothing_else(data: bytes) -> None:
    with pytest.raises(LogBroken):
        verify(data)
