"""The libvirt stand-in, on a real libvirt, makes, reads, changes and deletes as recorded.

Answers are compared whole, after the names, paths and ids of the recording are replaced by those
of the test. Guests have no system to boot: what counts is that QEMU runs them.
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from abox.filter_race import again_if_lost
from abox.host_state import LIBVIRT_URI
from tests import host
from tests.recordings import (
    CallFailedError,
    Document,
    Recording,
    all_recordings,
    ask,
    differences,
    recording,
)
from toolchain import hypervisor
from toolchain.plugins.libvirt.provider import LibvirtProvider
from toolchain.progress import Step

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

POOL, DOMAIN, BRIDGE = "abxtw-pool", "abxtw-dom", "abxtwlv0"
FOLDER = Path("/var/lib/libvirt/images/abxtw")
SIZE_BYTES = 33554432
MAC = "52:54:00:12:34:56"

RECORDED_UUID = re.compile(r"(?<!;)\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b(?!-34363bc7c4c0)")
"""Ids of pools and domains; not those behind the semicolon of a CD, nor the bridge's own keys."""

BRIDGE_KEY = "e2bfb730-ecaa-11e6-8f88-34363bc7c4c0"


def virsh(*arguments: str, check: bool = True) -> str:
    command = ["virsh", "-q", "-c", LIBVIRT_URI, *arguments]
    done = again_if_lost(lambda: host.run(command, check=check), host.CommandError, time.sleep)
    return done.stdout.strip()


@pytest.fixture
def libvirt() -> Iterator[None]:
    """A libvirt without anything of these tests, and a bridge for their domains."""
    hypervisor.ensure(Step("libvirt"))
    sweep()
    host.run(["ip", "link", "add", BRIDGE, "type", "bridge"])
    yield
    sweep()


def sweep() -> None:
    """Remove domains, pools and the bridge of these tests."""
    virsh("destroy", DOMAIN, check=False)
    virsh("undefine", DOMAIN, check=False)
    virsh("pool-destroy", POOL, check=False)
    virsh("pool-undefine", POOL, check=False)
    shutil.rmtree(FOLDER, ignore_errors=True)
    host.run(["ip", "link", "del", BRIDGE], check=False)


class Replay:
    """Puts recordings to the stand-in under the test's own names."""

    def __init__(self) -> None:
        self.plugin = LibvirtProvider()
        ask(self.plugin, "Configure", recording("libvirt-configure").request)
        self.names = {
            "/var/lib/example/pool": str(FOLDER),
            "offpool": POOL,
            "offdom": DOMAIN,
            "br-lv0": BRIDGE,
        }

    def call(self, name: str) -> Recording:
        return recording(name).spelled(self.names)

    def ask(self, call: Recording) -> Document:
        return ask(self.plugin, call.call, call.request)

    def create(self, name: str) -> str:
        """Create as recorded, compare the answer, and return the new id."""
        call = self.call(name)
        got = self.ask(call)
        wanted = with_sizes(with_id(call.response or {}, got["id"]), got)
        assert list(differences(wanted, got)) == []
        return str(got["id"])

    def answers_alike(self, name: str, identity: str) -> Document:
        """Put a call about an existing resource, and compare the answer."""
        call = self.call(name)
        got = self.ask(Recording(name, call.call, with_id(call.request, identity), None, None))
        wanted = with_sizes(with_id(call.response or {}, identity), got)
        assert list(differences(wanted, got)) == []
        return got

    def fails_alike(self, name: str, identity: str = "") -> None:
        """Put a call that failed in the recording, and compare the error's text."""
        call = self.call(name)
        with pytest.raises(CallFailedError) as failed:
            self.ask(Recording(name, call.call, with_id(call.request, identity), None, None))
        assert str(failed.value) == call.error


def with_id(document: Document, identity: str) -> Document:
    """A document about another resource of the same kind."""
    changed = dict(document)
    if "id" in changed and identity:
        changed["id"] = identity
    for part in ("properties", "olds", "news"):
        if identity and "id" in changed.get(part, {}):
            changed[part] = {**changed[part], "id": identity}
    return changed


def with_sizes(wanted: Document, got: Document) -> Document:
    """A pool's sizes are those of the disk that it is on."""
    sizes = {
        key: got["properties"][key]
        for key in ("allocation", "available", "capacity")
        if key in got.get("properties", {})
    }
    if not sizes:
        return wanted
    assert sizes["capacity"] > 0
    return {**wanted, "properties": {**wanted["properties"], **sizes}}


@pytest.fixture
def replay(libvirt: None) -> Replay:
    """Recordings under the test's names."""
    return Replay()


@pytest.fixture
def disks(replay: Replay) -> Replay:
    """The recorded pool with a base volume, the recorded disk on it, and a volume for the CD."""
    replay.create("libvirt-pool-create")
    virsh("vol-create-as", POOL, "base.qcow2", str(SIZE_BYTES), "--format", "qcow2")
    virsh("vol-create-as", POOL, "ci.iso", "1M", "--format", "raw")
    replay.create("libvirt-volume-create")
    return replay


def test_pool_lives_as_recorded(replay: Replay) -> None:
    """Made with its folder, read back, deleted with its folder, gone."""
    identity = replay.create("libvirt-pool-create")
    assert FOLDER.is_dir()
    assert virsh("pool-uuid", POOL) == identity
    replay.answers_alike("libvirt-pool-read", identity)
    replay.answers_alike("libvirt-pool-delete", identity)
    assert not FOLDER.exists()
    gone = replay.call("libvirt-pool-read")
    request = with_id(gone.request, identity)
    assert ask(replay.plugin, "Read", request) == {}
    replay.answers_alike("libvirt-pool-delete", identity)  # deleting what is gone is fine


def test_volume_lives_as_recorded(disks: Replay) -> None:
    """An overlay of its base; read back, also from a stopped pool, which that starts; deleted."""
    identity = str(FOLDER / "disk.qcow2")
    described = ET.fromstring(virsh("vol-dumpxml", identity))
    assert described.findtext("backingStore/path") == str(FOLDER / "base.qcow2")
    disks.answers_alike("libvirt-volume-read", identity)
    virsh("pool-destroy", POOL)
    disks.answers_alike("libvirt-volume-read", identity)
    assert virsh("pool-list", "--name").split().count(POOL) == 1
    disks.answers_alike("libvirt-volume-delete", identity)
    assert not Path(identity).exists()
    assert disks.ask(disks.call("libvirt-volume-read")) == {}
    disks.answers_alike("libvirt-volume-delete", identity)


def test_domain_lives_as_recorded(disks: Replay) -> None:
    """Made through the stylesheet, read running and off, started again, deleted, gone."""
    identity = disks.create("libvirt-domain-create")
    described = ET.fromstring(virsh("dumpxml", DOMAIN))
    reference = described.find("devices/interface/filterref")
    assert reference is not None
    assert reference.get("filter") == "clean-traffic"
    assert described.find("devices/graphics") is None
    disks.answers_alike("libvirt-domain-read", identity)
    virsh("destroy", DOMAIN)
    disks.answers_alike("libvirt-domain-read-off", identity)
    disks.answers_alike("libvirt-domain-update-running", identity)
    assert virsh("domstate", DOMAIN) == "running"
    disks.answers_alike("libvirt-domain-update-cloudinit", identity)
    disks.answers_alike("libvirt-domain-delete", identity)
    assert DOMAIN not in virsh("list", "--all", "--name").split()
    disks.answers_alike("libvirt-domain-read-gone", identity)


def test_second_interface_is_read_as_recorded(disks: Replay) -> None:
    """An interface attached by hand is seen, and stays a difference for good."""
    identity = disks.create("libvirt-domain-create")
    virsh("attach-interface", DOMAIN, "bridge", BRIDGE, "--mac", "52:54:00:aa:bb:cc", "--live")
    disks.answers_alike("libvirt-domain-read-extra-nic", identity)


def test_lost_volume_fails_as_recorded(disks: Replay) -> None:
    """A volume deleted under a domain makes every read of the domain fail."""
    identity = disks.create("libvirt-domain-create")
    (FOLDER / "disk.qcow2").unlink()
    virsh("pool-refresh", POOL)
    disks.fails_alike("libvirt-domain-read-missing-volume", identity)


def test_machine_without_ide_fails_as_recorded(disks: Replay) -> None:
    """The CD of `cloudinit` is on IDE, which the newer machine type lacks."""
    disks.fails_alike("libvirt-domain-create-q35-ide-error")
    assert DOMAIN not in virsh("list", "--all", "--name").split()


CHURN = """\
while sleep 0.02; do nft add table inet abxtw-churn && nft delete table inet abxtw-churn; done
"""


def test_a_start_outlasts_other_changes_of_the_hosts_rules(disks: Replay) -> None:
    """Somebody else commits rules all the time, which ebtables of nftables gives up at."""
    churning = host.spawn(["sh", "-c", CHURN])
    try:
        identity = disks.create("libvirt-domain-create")
        for _ in range(3):
            virsh("destroy", DOMAIN)
            disks.answers_alike("libvirt-domain-update-running", identity)
    finally:
        host.end(churning)
        host.run(["nft", "delete", "table", "inet", "abxtw-churn"], check=False)


DRIFT_UNSEEN = {
    "filterref removed": lambda text: re.sub(r"<filterref.*?</filterref>", "", text, flags=re.S),
    "CD ejected": lambda text: re.sub(r"<source file='[^']*ci.iso'[^>]*/>", "", text),
    "memory locked": lambda text: text.replace(
        "</memory>", "</memory><memoryBacking><nosharepages/></memoryBacking>", 1
    ),
}


@pytest.mark.parametrize("change", DRIFT_UNSEEN)
def test_drift_that_the_official_plugin_misses_is_missed(disks: Replay, change: str) -> None:
    """No more is read back than the official plugin does: the own provider sees the rest."""
    identity = disks.create("libvirt-domain-create")
    virsh("destroy", DOMAIN)
    before = virsh("dumpxml", DOMAIN, "--inactive")
    after = DRIFT_UNSEEN[change](before)
    assert after != before
    path = FOLDER / "changed.xml"
    path.write_text(after)
    virsh("define", str(path))
    virsh("start", DOMAIN)
    disks.answers_alike("libvirt-domain-read", identity)


def read(replay: Replay, identity: str) -> Document:
    call = replay.call("libvirt-domain-read")
    return dict(ask(replay.plugin, "Read", with_id(call.request, identity))["properties"])


def test_drift_that_the_official_plugin_sees_is_seen(disks: Replay) -> None:
    """Autostart, the largest memory, another bridge, suspended: each shows."""
    identity = disks.create("libvirt-domain-create")
    virsh("autostart", DOMAIN)
    assert read(disks, identity)["autostart"] is True
    virsh("suspend", DOMAIN)
    assert read(disks, identity)["running"] is False
    virsh("destroy", DOMAIN)
    virsh("setmaxmem", DOMAIN, "128M", "--config")
    assert read(disks, identity)["memory"] == 128
    virsh("define", str(_moved_to("lo-none")))
    (interface,) = read(disks, identity)["networkInterfaces"]
    assert interface["bridge"] == "lo-none"
    assert interface["mac"] == MAC


def _moved_to(bridge: str) -> Path:
    path = FOLDER / "moved.xml"
    path.write_text(virsh("dumpxml", DOMAIN, "--inactive").replace(BRIDGE, bridge))
    return path


def test_suspended_domain_is_not_repaired(disks: Replay) -> None:
    """An update of a suspended domain fails, as with the official plugin."""
    identity = disks.create("libvirt-domain-create")
    virsh("suspend", DOMAIN)
    call = disks.call("libvirt-domain-update-running")
    with pytest.raises(CallFailedError, match="domain is already running"):
        ask(disks.plugin, "Update", with_id(call.request, identity))


def test_source_is_uploaded_and_stylesheet_applied(disks: Replay, tmp_path: Path) -> None:
    """A file becomes a volume, whose XML the program's stylesheet may change."""
    source = tmp_path / "seed.iso"
    source.write_bytes(bytes(32768) + b"\x01CD001\x01" + bytes(8185))  # looks like an ISO
    made = ask(
        disks.plugin,
        "Create",
        volume_request(name="seed.iso", source=str(source), format="iso"),
    )
    assert made["properties"]["size"] == 40960
    assert made["properties"]["format"] == "iso"
    assert Path(made["id"]).read_bytes() == source.read_bytes()
    overlay = ask(
        disks.plugin,
        "Create",
        volume_request(
            name="over.qcow2", size=2 * SIZE_BYTES, xml={"xslt": backed_by("base.qcow2")}
        ),
    )
    described = ET.fromstring(virsh("vol-dumpxml", overlay["id"]))
    assert described.findtext("backingStore/path") == str(FOLDER / "base.qcow2")


def volume_request(**properties: object) -> Document:
    return {
        "urn": "urn:pulumi:s::p::libvirt:index/volume:Volume::v",
        "properties": {"pool": POOL, **properties},
    }


def backed_by(name: str) -> str:
    return f"""<?xml version="1.0"?>
<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform">
  <xsl:template match="node()|@*">
    <xsl:copy><xsl:apply-templates select="node()|@*"/></xsl:copy>
  </xsl:template>
  <xsl:template match="/volume">
    <xsl:copy>
      <xsl:apply-templates select="node()|@*"/>
      <backingStore><path>{FOLDER / name}</path><format type="qcow2"/></backingStore>
    </xsl:copy>
  </xsl:template>
</xsl:stylesheet>"""


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"source": "/nonexistent.img"}, "no such file"),
        ({"source": "https://198.51.100.1/x.img"}, "takes files of this host only"),
        ({"source": __file__, "size": 1}, "'size' can't be specified"),
        ({"baseVolumeId": "/nonexistent"}, "can't retrieve volume ID '/nonexistent'"),
        ({"pool": "abxtw-none"}, "can't find storage pool 'abxtw-none'"),
        ({"xml": {"xslt": "<no stylesheet"}}, "error applying XSLT stylesheet"),
    ],
    ids=["missing", "remote", "size-beside-source", "no-base", "no-pool", "stylesheet"],
)
def test_volume_that_cannot_be_made_says_why(
    disks: Replay, properties: Document, message: str
) -> None:
    """And nothing is left."""
    with pytest.raises(CallFailedError, match=re.escape(message)):
        ask(disks.plugin, "Create", volume_request(name="bad.qcow2", **properties))
    assert "bad.qcow2" not in virsh("vol-list", POOL)


def test_every_recording_about_something_live_is_replayed() -> None:
    """No recording lies here unused."""
    live = {
        call.name
        for call in all_recordings()
        if call.name.startswith("libvirt-")
        and call.call in ("Create", "Read", "Update", "Delete")
        and not call.preview
    }
    text = Path(__file__).read_text()
    assert {name for name in live if f'"{name}"' not in text} == set()
