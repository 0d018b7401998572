"""Snapshots as QEMU and libvirt tell of them: names, lists, and commands that no name can bend."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from abox.errors import HostError, SettingsError
from abox.snapshots import (
    Disk,
    Source,
    check_snapshot_name,
    default_name,
    gather,
    nodes_of,
    parse_disk,
    render_drop,
    render_take,
    writable_disks,
)

NOON = datetime(2026, 1, 2, 12, 0, 0, tzinfo=UTC)

DOMAIN = """<domain><devices>
<disk type='volume' device='disk'><driver name='qemu' type='qcow2'/>
  <source pool='p' volume='root'/><target dev='vda' bus='virtio'/></disk>
<disk type='file' device='disk'><driver name='qemu' type='qcow2'/>
  <source file='/d/workspace'/><target dev='vdb' bus='virtio'/></disk>
<disk type='file' device='disk'><driver name='qemu' type='raw'/>
  <source file='/d/seed.img'/><target dev='vdc' bus='virtio'/><readonly/></disk>
</devices></domain>"""


def test_what_the_guest_can_write_are_the_disks() -> None:
    root, workspace = writable_disks(DOMAIN)
    assert root == Source("vda", "", "p", "root")
    assert workspace == Source("vdb", "/d/workspace", "", "")


@pytest.mark.parametrize(
    ("old", "new"),
    [("type='qcow2'/>\n  <source pool", "type='raw'/>\n  <source pool"),
     ("<source file='/d/workspace'/>", ""), ("pool='p' ", ""),
     ("<source file='/d/workspace'/>", "<source dev='/dev/sda'/>")],
)  # fmt: skip
def test_a_disk_that_holds_none_is_told(old: str, new: str) -> None:
    assert old in DOMAIN
    with pytest.raises(HostError, match="can't hold snapshots"):
        writable_disks(DOMAIN.replace(old, new))


@given(st.text(max_size=70))
def test_a_name_is_a_sandboxs_or_refused(name: str) -> None:
    try:
        check_snapshot_name(name)
    except SettingsError:
        return
    assert name.isascii()
    assert name[0].isalpha()
    assert not set(name) & set("/ \"'\\;\n")


@pytest.mark.parametrize("name", ["", "1", "-a", "a b", "a/b", "a\n", "ü", "a" * 64, "--help"])
def test_names_that_commands_could_misread_are_refused(name: str) -> None:
    with pytest.raises(SettingsError, match="is refused"):
        check_snapshot_name(name)


def test_a_name_of_its_own_says_when_and_is_one() -> None:
    elsewhere = NOON.astimezone(timezone(timedelta(hours=5)))
    assert check_snapshot_name(default_name(elsewhere)) == "at-20260102-120000"


def info(**names: int) -> str:
    listed = [{"name": name, "date-sec": at, "id": "1"} for name, at in names.items()]
    return json.dumps({"format": "qcow2", "snapshots": listed})


def test_a_snapshot_is_one_name_in_several_disks() -> None:
    second = int(NOON.timestamp())
    root = parse_disk(info(late=second + 9, early=second, half=second + 5))
    workspace = parse_disk(info(late=second + 8, early=second + 1))
    found = gather({"vda": root, "vdb": workspace, "vdc": parse_disk("{}")})
    assert [one.name for one in found] == ["early", "half", "late"]
    early, half, late = found
    assert early.made == NOON
    assert late.made == NOON + timedelta(seconds=8)
    assert (half.disks, late.disks) == (("vda",), ("vda", "vdb"))
    assert early.to_document()["made"] == "2026-01-02T12:00:00+00:00"
    assert gather({}) == []


@pytest.mark.parametrize(
    "text",
    ["", "[]", '{"snapshots": [{}]}', '{"snapshots": 1}', '{"snapshots": [1]}',
     '{"snapshots": [{"name": "a", "date-sec": 1e300}]}'],
)  # fmt: skip
def test_what_is_no_answer_of_qemu_img_is_told(text: str) -> None:
    with pytest.raises(HostError, match="can't be read"):
        parse_disk(text)


ANSWER = {
    "return": [
        {"inserted": {"file": "/d/seed.img", "node-name": "n1", "ro": True}},
        {"inserted": {"file": "/d/workspace", "node-name": "n2", "ro": False}},
        {"inserted": {"file": "/d/root", "node-name": "n3", "ro": False}},
        {"device": "empty"},
    ]
}


def test_qemus_names_come_in_the_order_of_the_disks() -> None:
    disks = [Disk("vda", "/d/root"), Disk("vdb", "/d/workspace")]
    assert nodes_of(ANSWER, disks) == ["n3", "n2"]


@pytest.mark.parametrize("path", ["/d/other", "/d/seed.img"])
def test_a_disk_that_qemu_does_not_write_is_told(path: str) -> None:
    with pytest.raises(HostError, match="is not open"):
        nodes_of(ANSWER, [Disk("vda", "/d/root"), Disk("vdb", path)])


def test_all_disks_are_taken_in_one_transaction() -> None:
    command = json.loads(render_take(["n3", "n2"], "one"))
    assert command["execute"] == "transaction"
    taken = command["arguments"]["actions"]
    assert [one["data"] for one in taken] == [
        {"device": "n3", "name": "one"},
        {"device": "n2", "name": "one"},
    ]
    dropped = json.loads(render_drop("n3", "one"))
    assert dropped["arguments"] == {"device": "n3", "name": "one"}
