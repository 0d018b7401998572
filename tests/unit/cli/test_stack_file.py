"""Edits of a settings file change the edited lines and nothing else."""

from __future__ import annotations

import difflib

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from abox.errors import AboxError, SettingsError
from cli.checkout import Checkout
from cli.stack_file import (
    append_entries,
    raw_settings,
    read_settings,
    remove_entry,
    write_atomically,
)
from tests.unit.cli.conftest import SETTINGS


def changed_lines(before: str, after: str) -> list[str]:
    lines = difflib.ndiff(before.splitlines(), after.splitlines())
    return [line for line in lines if line[:1] in "+-"]


def listed(text: str, key: str) -> object:
    return raw_settings(text, "file")[key]


def test_an_appended_entry_is_one_new_line():
    after = append_entries(SETTINGS, "allow", ["new.example.com"])
    assert changed_lines(SETTINGS, after) == ["+       - new.example.com"]


def test_an_entry_that_yaml_would_misread_is_quoted():
    after = append_entries(SETTINGS, "allow", ["*.example.dev"])
    assert changed_lines(SETTINGS, after) == ['+       - "*.example.dev"']


def test_a_mapping_is_appended_on_one_line():
    entry = {"host": "a.example.com", "ports": [8443]}
    after = append_entries(SETTINGS, "allow", [entry])
    assert changed_lines(SETTINGS, after) == ["+       - {host: a.example.com, ports: [8443]}"]


def test_a_removed_entry_leaves_the_comment_above_the_next_one():
    after = remove_entry(SETTINGS, "allow", 0)
    assert changed_lines(SETTINGS, after) == ["-       - example.com                # exact"]


def test_a_removed_mapping_takes_all_its_lines():
    after = remove_entry(SETTINGS, "allow", 2)
    assert changed_lines(SETTINGS, after) == [
        "-       - host: api.example.net",
        "-         ports: [443]",
        "-         methods: [GET, POST]       # no DELETE",
        '-         paths: ["/v1/*"]',
    ]


def test_the_last_entry_of_a_list_leaves_an_empty_list():
    after = remove_entry(SETTINGS, "deny", 0)
    assert listed(after, "deny") == []
    assert "# deny beats allow" in after


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("config:\n  abox:sandbox:\n    mode: active\n", id="no-list"),
        pytest.param("config:\n  abox:sandbox:\n    allow: []\n", id="empty"),
        pytest.param("config:\n  abox:sandbox:\n    allow:\n", id="null"),
        pytest.param("config:\n  abox:sandbox: {}\n", id="no-settings"),
        pytest.param("encryptionsalt: v1:abc=\n", id="no-config"),
        pytest.param("", id="empty-file"),
    ],
)
def test_a_list_that_is_not_there_is_made(text):
    after = append_entries(text, "allow", ["new.example.com"])
    assert listed(after, "allow") == ["new.example.com"]


def test_a_list_in_brackets_is_edited_and_its_neighbours_keep_their_comments():
    text = "config:\n  abox:sandbox:\n    # why\n    allow: [a.test, b.test]  # both\n"
    after = append_entries(text, "allow", ["c.test"])
    assert (
        after == "config:\n  abox:sandbox:\n    # why\n    allow: [a.test, b.test, c.test] # both\n"
    )
    assert listed(remove_entry(after, "allow", 0), "allow") == ["b.test", "c.test"]


def test_a_list_at_the_column_of_its_key_is_kept_there():
    text = "config:\n  abox:sandbox:\n    allow:\n    - a.test\n    mode: active\n"
    assert append_entries(text, "allow", ["b.test"]) == text.replace(
        "a.test\n", "a.test\n    - b.test\n"
    )


def test_a_file_without_a_final_line_break_gets_one():
    text = "config:\n  abox:sandbox:\n    allow:\n      - a.test"
    assert append_entries(text, "allow", ["b.test"]) == text + "\n      - b.test\n"


def test_windows_line_breaks_are_kept():
    text = "config:\r\n  abox:sandbox:\r\n    allow:\r\n      - a.test\r\n"
    assert append_entries(text, "allow", ["b.test"]) == text + "      - b.test\r\n"


def test_a_form_that_an_edit_would_not_keep_is_refused():
    text = "config:\n  abox:sandbox:\n    allow: &names\n      - a.test\n    deny: *names\n"
    with pytest.raises(SettingsError, match="by hand"):
        append_entries(text, "allow", ["b.test"])


NAMES = st.from_regex(r"[a-z][a-z0-9]{0,8}\.example", fullmatch=True)
COMMENTS = st.sampled_from(["", "  # note", "\n      # between", "\n"])


@settings(deadline=None)
@given(st.lists(st.tuples(NAMES, COMMENTS), min_size=1, max_size=6), st.data())
def test_any_edit_keeps_every_other_line(entries, data):
    lines = "".join(f"      - {name}{comment}\n" for name, comment in entries)
    text = f"# top\nconfig:\n  abox:sandbox:\n    allow:\n{lines}    mode: active  # end\n"
    index = data.draw(st.integers(0, len(entries) - 1))
    appended = append_entries(text, "allow", ["new.example"])
    assert changed_lines(text, appended) == ["+       - new.example"]
    removed = remove_entry(text, "allow", index)
    names = [name for name, _ in entries]
    assert listed(removed, "allow") == names[:index] + names[index + 1 :]
    if len(entries) > 1:
        assert all(line.startswith("-") for line in changed_lines(text, removed))
        assert len(changed_lines(text, removed)) == 1


@settings(deadline=None)
@given(st.text(max_size=40))
def test_whatever_is_appended_reads_back_as_it_was(value):
    after = append_entries(SETTINGS, "allow", [value])
    assert yaml.safe_load(after)["config"]["abox:sandbox"]["allow"][-1] == value


def test_an_unknown_stack_is_told_with_the_known_ones(checkout: Checkout):
    with pytest.raises(SettingsError) as raised:
        read_settings(checkout, "dec")
    assert "'dec'" in raised.value.what
    assert "did you mean dev? known stacks: dev" in raised.value.remedy


def test_settings_that_are_no_yaml_name_the_line(checkout: Checkout):
    checkout.stack_file("dev").write_text("config:\n  a: [\n  b: ]:\n")
    with pytest.raises(SettingsError, match=r"stacks/Pulumi.dev.yaml, line \d"):
        read_settings(checkout, "dev")


def test_settings_that_are_no_mapping_are_refused(checkout: Checkout):
    checkout.stack_file("dev").write_text("config:\n  abox:sandbox: [a]\n")
    with pytest.raises(AboxError, match="no mapping"):
        read_settings(checkout, "dev")


def test_a_written_file_keeps_its_mode_and_leaves_nothing_beside_it(checkout: Checkout):
    file = checkout.stack_file("dev")
    file.chmod(0o640)
    write_atomically(file, "new\n")
    assert file.read_text() == "new\n"
    assert file.stat().st_mode & 0o777 == 0o640
    assert [one.name for one in file.parent.iterdir()] == ["Pulumi.dev.yaml"]


def test_a_write_goes_through_a_link_to_the_file(checkout: Checkout):
    file = checkout.stack_file("dev")
    real = checkout.root / "real.yaml"
    file.rename(real)
    file.symlink_to(real)
    write_atomically(file, "new\n")
    assert file.is_symlink()
    assert real.read_text() == "new\n"
