"""What the libvirt stand-in refuses, and plans where the recordings don't show it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.recordings import CallFailedError, Document, ask, recording
from toolchain.plugins.bridge.detailed_diff import Change, detailed_diff
from toolchain.plugins.bridge.plan import plan_state, prior_state
from toolchain.plugins.libvirt.domain_fields import DOMAIN
from toolchain.plugins.libvirt.provider import LibvirtProvider


def checked(**properties: Any) -> Document:
    """A check of the recorded domain with other properties."""
    request = recording("libvirt-domain-check").request
    return ask(LibvirtProvider(), "Check", {**request, "news": {**request["news"], **properties}})


@pytest.mark.parametrize(
    ("properties", "property_path"),
    [
        ({"graphics": {"type": "vnc"}}, "graphics"),
        ({"video": {"type": "qxl"}}, "video"),
        ({"tpm": {"model": "tpm-tis"}}, "tpm"),
        ({"firmware": "/usr/share/OVMF.fd"}, "firmware"),
        ({"filesystems": [{"source": "/", "target": "host"}]}, "filesystems"),
        ({"qemuAgent": True}, "qemuAgent"),
        ({"metadata": "<x/>"}, "metadata"),
        ({"disks": [{"volumeId": "/v", "scsi": True}]}, "disks[0].scsi"),
        ({"disks": [{"blockDevice": "/dev/sda"}]}, "disks[0].blockDevice"),
        ({"networkInterfaces": [{"macvtap": "eth0"}]}, "networkInterfaces[0].macvtap"),
        ({"networkInterfaces": [{"networkName": "default"}]}, "networkInterfaces[0].networkName"),
        ({"consoles": [{"type": "tcp", "targetPort": "0"}]}, "consoles[0].type"),
        ({"memoryBacking": "x"}, "memoryBacking"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_not_implemented_is_refused(properties: Document, property_path: str) -> None:
    """By name, before anything is made: never ignored."""
    assert checked().get("failures", []) == []
    (failure,) = checked(**properties)["failures"]
    assert failure["property"] == property_path


@pytest.mark.parametrize(
    ("uri", "good"),
    [
        ("qemu:///system", True),
        ("test:///default", True),
        ("qemu+ssh://host/system", False),
        ("qemu+tcp://198.51.100.1/system", False),
    ],
)
def test_only_this_hosts_libvirt_is_taken(uri: str, *, good: bool) -> None:
    """A remote address is refused by the check of the configuration."""
    request = recording("libvirt-checkconfig").request
    got = ask(LibvirtProvider(), "CheckConfig", {**request, "news": {"uri": uri}})
    assert bool(got.get("failures")) is not good


def test_unconfigured_provider_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither configuration nor variable: an error that names both."""
    monkeypatch.delenv("LIBVIRT_DEFAULT_URI", raising=False)
    call = recording("libvirt-pool-create")
    with pytest.raises(CallFailedError, match="set libvirt:uri or LIBVIRT_DEFAULT_URI"):
        ask(LibvirtProvider(), "Create", call.request)


def test_other_resources_are_unknown() -> None:
    """What no program of ours uses has no stand-in, and the error names what there is."""
    call = recording("libvirt-pool-check")
    urn = call.request["urn"].replace("pool:Pool", "cloudInitDisk:CloudInitDisk")
    with pytest.raises(CallFailedError, match="unrecognized resource type") as refused:
        ask(LibvirtProvider(), "Check", {**call.request, "urn": urn})
    assert "libvirt:index/domain:Domain" in str(refused.value)


def changes(**news: Any) -> dict[str, Change]:
    """Changes of the recorded domain, with kernel parameters, to other inputs."""
    call = recording("libvirt-domain-diff-none")
    olds = {**call.request["olds"], "cmdlines": [{"root": "/dev/vda"}, {"_": "ro"}]}
    inputs = {**call.request["news"], "cmdlines": olds["cmdlines"], **news}
    prior = prior_state(DOMAIN, olds)
    planned = plan_state(DOMAIN, olds, inputs)
    return detailed_diff(DOMAIN, prior, planned, inputs, replace=True, flat=True)


def test_kernel_parameters_are_a_list_of_maps() -> None:
    """Equal ones are no change; a changed, added or lost one makes a new domain."""
    assert changes().keys() == {"__meta"}
    changed = changes(cmdlines=[{"root": "/dev/vdb"}, {"_": "ro"}])
    assert changed == {"cmdlines[0].root": Change.UPDATE_REPLACE}
    lost = changes(cmdlines=[{"root": "/dev/vda"}])
    assert lost == {
        "cmdlines[1]": Change.DELETE_REPLACE,
        "cmdlines": Change.UPDATE_REPLACE,
    }
    assert checked(cmdlines=[{"a": 1}])["inputs"]["cmdlines"] == [{"a": 1}]
    (failure,) = checked(cmdlines=["a=1"])["failures"]
    assert failure["property"] == "cmdlines[0]"


def test_case_of_an_address_does_not_count() -> None:
    """Libvirt shows addresses in upper case; the program may write them as it likes."""
    lower = [{"bridge": "br-lv0", "mac": "52:54:00:12:34:5a"}]
    upper = [{"bridge": "br-lv0", "mac": "52:54:00:12:34:5A"}]
    fields = {"networkInterfaces": DOMAIN["networkInterfaces"]}
    state = plan_state(fields, None, {"networkInterfaces": upper})
    assert plan_state(fields, state, {"networkInterfaces": lower}) == state
