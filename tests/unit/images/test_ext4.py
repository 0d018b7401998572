"""What debugfs is told for a tree."""

from __future__ import annotations

from pathlib import Path

import pytest

from abox.errors import HostError
from images.ext4 import commands


def test_tree_is_told_in_the_order_of_its_paths(tmp_path: Path) -> None:
    """Folders before what is in them; modes, links and names with blanks or quotes."""
    (tmp_path / "b").mkdir(mode=0o755)
    (tmp_path / "b").chmod(0o1777)
    (tmp_path / "b" / 'a "quoted" name').write_text("x")
    (tmp_path / "a").symlink_to("b/target")
    (tmp_path / "c").write_text("one")
    (tmp_path / "d").hardlink_to(tmp_path / "c")
    (tmp_path / "e").hardlink_to(tmp_path / "c")
    assert list(commands(tmp_path)) == [
        'symlink "/a" "b/target"',
        'mkdir "/b"',
        'set_inode_field "/b" mode 041777',
        f'write "{tmp_path}/b/a ""quoted"" name" "/b/a ""quoted"" name"',
        f'write "{tmp_path}/c" "/c"',
        'link "/c" "/d"',
        'link "/c" "/e"',
        'set_inode_field "/c" links_count 3',
    ]


def test_line_break_in_a_name_is_refused(tmp_path: Path) -> None:
    """It would start another command."""
    (tmp_path / "a\nrm b").write_text("")
    with pytest.raises(HostError, match="can't be written into an image"):
        list(commands(tmp_path))
