"""An overlay's stylesheet: the base is a value, whatever its path is."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from abox.render.volume import render_overlay_stylesheet


def base_of(sheet: str) -> tuple[str | None, str | None]:
    root = ElementTree.fromstring(sheet)
    (base,) = root.iter("backingStore")
    assert [part.tag for part in base] == ["path", "format"]
    return base.findtext("path"), base[1].get("type")


def test_the_base_and_its_format_are_written_down() -> None:
    sheet = render_overlay_stylesheet("/images/disk.qcow2", "qcow2")
    assert base_of(sheet) == ("/images/disk.qcow2", "qcow2")


@given(st.text(alphabet="/ab<>'\"&{}$ é.\n", max_size=30))
def test_no_path_becomes_an_element(path: str) -> None:
    try:
        sheet = render_overlay_stylesheet(path, "raw")
    except ValueError:
        return
    assert base_of(sheet) == (path, "raw")


@pytest.mark.parametrize(
    ("path", "kind"), [("relative", "raw"), ("", "raw"), ("/a\n", "raw"), ("/a", "vmdk")]
)
def test_what_can_not_be_a_base_is_refused(path: str, kind: str) -> None:
    with pytest.raises(ValueError, match="'"):
        render_overlay_stylesheet(path, kind)
