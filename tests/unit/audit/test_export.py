"""The export file: one form of each line, bounded lines, and the line at which it goes wrong."""

import io
import json

import pytest

from secureproto.audit.entries import MAX_ENTRY_BYTES
from secureproto.audit.export import MAX_LINE_BYTES, LogBroken, Logged, lines, read
from support.audit_logs import events, make_log

RECORDS = make_log(events(6))
FILE = b"".join(lines(RECORDS))


def test_what_is_written_is_read() -> None:
    assert list(read(io.BytesIO(FILE))) == RECORDS


def test_each_line_is_json_that_other_tools_read() -> None:
    values = [json.loads(line) for line in FILE.splitlines()]
    assert [sorted(value) for value in values] == [["entry", "leaf"]] * 4 + [["checkpoint"]] + [
        ["entry", "leaf"]
    ] * 2 + [["checkpoint"]]
    assert values[0]["entry"]["action"] == "server_started"
    assert values[4]["checkpoint"].startswith("secureproto/v1/audit/heart\n4\n")


def test_an_empty_file_has_no_records() -> None:
    assert list(read(io.BytesIO(b""))) == []


@pytest.mark.parametrize(
    "line",
    [
        b"\n",
        b"{}\n",
        b"[]\n",
        b"null\n",
        b"not json\n",
        b'{"checkpoint":1}\n',
        b'{"checkpoint":"a","more":1}\n',
        b'{"checkpoint": "a"}\n',
        b'{"checkpoint":"a"}\r\n',
        b'{"checkpoint":"a"}',
        b'{"entry":{}}\n',
        b'{"entry":{},"leaf":"' + b"A" * 64 + b'"}\n',
        b'{"entry":{},"leaf":"' + b"a" * 63 + b'"}\n',
        b'{"entry":"' + b"a" * MAX_ENTRY_BYTES + b'","leaf":"' + b"a" * 64 + b'"}\n',
        b'{"checkpoint":"' + b"a" * MAX_LINE_BYTES + b'"}\n',
        b'{"checkpoint":"\xff"}\n',
    ],
    ids=lambda line: line[:30],
)
def test_a_line_in_another_form_is_named(line: bytes) -> None:
    whole = b"".join(lines(RECORDS[:5]))
    with pytest.raises(LogBroken, match="line 6 is neither") as caught:
        list(read(io.BytesIO(whole + line)))
    assert caught.value.sequence == 4


def test_the_entrys_bytes_are_cut_out_and_not_written_anew() -> None:
    line = b'{"entry":{ "any": "form" },"leaf":"' + b"0" * 64 + b'"}\n'
    assert list(read(io.BytesIO(line))) == [Logged(b'{ "any": "form" }', bytes(32))]
