"""The seed disk: readable, labelled, and the same bytes for the same files."""

from __future__ import annotations

import io
import time

import pycdlib
from hypothesis import given, settings
from hypothesis import strategies as st

from abox.render.nocloud import image_digest, render_image

FILES = {"user-data": "#cloud-config\n{}\n", "meta-data": "instance-id: x\n", "network-config": ""}


def read(image: bytes) -> dict[str, str]:
    disc = pycdlib.PyCdlib()
    disc.open_fp(io.BytesIO(image))
    found = {}
    for child in disc.list_children(joliet_path="/"):
        name = child.file_identifier().decode("utf-16-be")
        if child.is_file():
            out = io.BytesIO()
            disc.get_file_from_iso_fp(out, joliet_path=f"/{name}")
            found[name] = out.getvalue().decode()
    disc.close()
    return found


def test_the_files_are_read_back_under_their_names() -> None:
    assert read(render_image(FILES)) == FILES


def test_the_label_is_the_one_that_cloud_init_looks_for() -> None:
    assert render_image(FILES)[16 * 2048 + 40 :].startswith(b"cidata ")


def test_the_clock_and_its_zone_leave_no_trace(monkeypatch) -> None:
    first = render_image(FILES)
    monkeypatch.setattr(time, "time", lambda: 2_000_000_000.5)
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        assert render_image(FILES) == first
    finally:
        monkeypatch.undo()
        time.tzset()


@settings(max_examples=25, deadline=None)
@given(st.dictionaries(st.from_regex(r"[a-z]{1,20}", fullmatch=True), st.text(max_size=5000)))
def test_any_content_is_read_back(files: dict[str, str]) -> None:
    image = render_image(files)
    assert read(image) == files
    assert image_digest(image) == image_digest(render_image(files))


def test_other_content_has_another_digest() -> None:
    changed = {**FILES, "user-data": "#cloud-config\n{a: 1}\n"}
    assert image_digest(render_image(FILES)) != image_digest(render_image(changed))
