"""`abox tap`: what is kept and printed of what others send."""

from __future__ import annotations

import io

import pytest

from cli.tap import _keep_lines, _Lines

LINE = b"CLIENT_RANDOM " + b"0a" * 32 + b" " + b"1b" * 48 + b"\n"


@pytest.mark.parametrize(
    "other",
    [
        b"# a comment\n",
        LINE[:-1],
        b"CLIENT_RANDOM " + b"0a" * 31 + b" " + b"1b" * 48 + b"\n",
        LINE.lower(),
        LINE[:-1] + b" \x1b[2J\n",
        b"\n",
    ],
)
def test_only_lines_of_a_key_log_are_kept(other: bytes):
    """Whatever else arrives is left out; keys around it are kept."""
    file = io.BytesIO()
    _keep_lines([LINE, other, LINE], file)
    assert file.getvalue() == LINE * 2


def test_lines_are_printed_whole_and_without_control_characters(capsys: pytest.CaptureFixture[str]):
    """Pieces of text become lines; nothing of a packet steers the terminal."""
    lines = _Lines()
    for piece in (b"one \x1b[2J", b"end\ntw", b"o\nrest"):
        lines.write(piece)
    assert capsys.readouterr().out == "one \\x1b[2Jend\ntwo\n"
