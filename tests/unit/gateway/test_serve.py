"""What the daemon reads again, and for which names it mints."""

from __future__ import annotations

from abox.name_shape import HEALTH_NAME
from abox.name_table import NameTable
from gateway.files import write_file
from gateway.serve import may_mint
from gateway.watched_file import WatchedFile


def test_a_replaced_file_is_read_again_and_a_broken_one_counts_as_absent(tmp_path):
    path = tmp_path / "names.json"
    watched = WatchedFile(path, lambda p: NameTable.from_json(p.read_text()), NameTable())
    mint = may_mint(watched)
    assert not mint("allowed.test")
    write_file(path, NameTable(allow=frozenset({"allowed.test"})).to_json())
    assert mint("Allowed.test")
    assert not mint("evil.test")
    write_file(path, "{")
    assert not mint("allowed.test")


def test_the_health_name_always_has_a_certificate(tmp_path):
    nothing = WatchedFile(tmp_path / "no", lambda _path: NameTable(), NameTable())
    assert may_mint(nothing)(HEALTH_NAME)
