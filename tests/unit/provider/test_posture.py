"""The comparison of a container with what was asked of it."""

from __future__ import annotations

import copy
import dataclasses
import json

import pytest

from provider.posture import Expected, Facts, Repair, findings, summary
from tests.unit.provider.samples import EXPECTED, MEGABYTE, container_inspection

IMAGE = {"Id": "sha256:1", "Config": {"Env": ["PATH=/bin"], "Cmd": ["sleep"]}}


def compared(change=copy.copy, *, image=IMAGE, namespaces=("n", "n"), **asked):
    live = container_inspection("c1")
    change(live)
    facts = Facts(
        container=live, image=image, namespace=namespaces[0], joined_namespace=namespaces[1]
    )
    return findings(Expected.parse({**EXPECTED, **asked}), facts)


def host(key, value):
    def change(live):
        live["HostConfig"][key] = value

    return change


def test_container_as_asked_has_no_findings():
    assert compared() == []


@pytest.mark.parametrize("value", [None, 0, -1])
def test_every_way_to_write_no_pids_limit_is_seen(value):
    (finding,) = compared(host("PidsLimit", value))
    assert finding.text == "pids limit is 0 instead of 64"
    assert finding.repair is Repair.LIMITS
    assert compared(host("PidsLimit", value), pids_limit=0) == []


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("Privileged", True, "privileged"),
        ("CapAdd", ["CAP_NET_ADMIN"], "NET_ADMIN"),
        ("CapDrop", None, "dropped capability missing: ALL"),
        ("SecurityOpt", ["no-new-privileges:false"], "security option missing: no-new-privileges"),
        ("SecurityOpt", ["no-new-privileges", "seccomp=unconfined"], "seccomp=unconfined"),
        ("ReadonlyRootfs", False, "read-only root"),
        ("PidMode", "host", "pid mode"),
        ("IpcMode", "shareable", "ipc mode"),
        ("UTSMode", "host", "UTS mode"),
        ("UsernsMode", "host", "user namespace mode"),
        ("PortBindings", {"22/tcp": [{"HostPort": "22"}]}, "22/tcp"),
        ("PublishAllPorts", True, "published"),
        ("Devices", [{"PathOnHost": "/dev/kvm"}], "/dev/kvm"),
        ("DeviceRequests", [{"Driver": "nvidia"}], "nvidia"),
        ("DeviceCgroupRules", ["a *:* rwm"], "a *:* rwm"),
        ("GroupAdd", ["0"], "group not asked for: 0"),
        ("Sysctls", {"a": "1"}, "kernel settings"),
        ("Dns", ["8.8.8.8"], "resolvers"),
        ("Tmpfs", {"/x": ""}, "tmpfs"),
        ("NetworkMode", "host", "network mode"),
        ("NetworkMode", "container:abc", "network mode"),
    ],
)
def test_weaker_confinement_is_a_finding_that_needs_replacement(key, value, words):
    found = compared(host(key, value))
    assert any(words in finding.text for finding in found), found
    assert all(finding.repair is Repair.NONE for finding in found)


@pytest.mark.parametrize(
    "same",
    [
        host("CapDrop", ["all"]),
        host("CapAdd", []),
        host("SecurityOpt", ["no-new-privileges"]),
        host("RestartPolicy", {"Name": ""}),
        host("IpcMode", ""),
        host("Dns", []),
    ],
)
def test_other_spelling_of_the_same_is_no_finding(same):
    assert compared(same) == []


def test_a_long_security_option_is_compared_whole_and_shown_short():
    profile = "seccomp=" + "x" * 9000
    options = ["no-new-privileges:true", profile]
    assert compared(host("SecurityOpt", options), security_opts=options) == []
    found = compared(host("SecurityOpt", [*options[:1], profile + "y"]), security_opts=options)
    assert len(found) == 2
    assert all(len(finding.text) < 150 for finding in found)


def test_no_environment_value_is_shown():
    def change(live):
        live["Config"]["Env"] = ["PATH=/bin", "TOKEN=hunter2", "EXTRA=hunter3"]

    found = compared(change, env=["TOKEN=hunter1", "LOST=hunter4"])
    assert [finding.text for finding in found] == [
        "environment variable EXTRA differs",
        "environment variable LOST differs",
        "environment variable TOKEN differs",
    ]


def test_the_images_own_environment_and_command_are_no_findings():
    image = {**IMAGE, "Config": {"Env": ["PATH=/opt"], "Cmd": ["run"]}}
    assert {finding.text for finding in compared(image=image)} == {
        "command is ['sleep'] instead of ['run']",
        "environment variable PATH differs",
    }
    assert compared(image=image, command=["sleep"], env=["PATH=/bin"]) == []


def test_image_that_is_not_in_the_engine_is_a_finding():
    found = compared(image={}, command=["sleep"], env=["PATH=/bin"])
    assert [finding.text for finding in found] == ["its image sha256:1 isn't in the engine"]


def mounted(**changes):
    mount = {"Type": "volume", "Name": "v", "Source": "/s", "Destination": "/d", "RW": False}

    def change(live):
        live["Mounts"] = [{**mount, **changes}]

    return change


def test_mounts_are_compared_with_source_target_and_mode():
    asked = [{"source": "v", "target": "/d", "read_only": True}]
    assert compared(mounted(), mounts=asked) == []
    for change in ({"RW": True}, {"Name": "w"}, {"Destination": "/e"}):
        texts = [finding.text for finding in compared(mounted(**change), mounts=asked)]
        assert texts[0] == "mount missing: v at /d (read-only)"
        assert texts[1].startswith("mount not asked for: ")


def test_joined_container_is_judged_by_its_namespace():
    def change(live):
        live["HostConfig"]["NetworkMode"] = "container:pause"
        live["NetworkSettings"]["Networks"] = {}

    asked = {"joined": "pause", "networks": []}
    assert compared(change, **asked) == []
    (finding,) = compared(change, namespaces=("old", "new"), **asked)
    assert finding.repair is Repair.STATE


def test_addresses_of_both_families_are_compared():
    def live(address_v6):
        def change(live):
            (endpoint,) = live["NetworkSettings"]["Networks"].values()
            endpoint["GlobalIPv6Address"] = address_v6

        return change

    asked = [{"network": "net1", "address": "10.10.0.10", "address_v6": "fd66::2"}]
    assert compared(live("fd66::2"), networks=asked) == []
    for found in ("", "fd66::3"):
        (finding,) = compared(live(found), networks=asked)
        assert finding.repair is Repair.NETWORKS
    (finding,) = compared(live("fd66::2"))
    assert "fd66::2 instead of 10.10.0.10" in finding.text


def test_every_field_of_the_expectation_is_compared():
    other = {
        "image": "sha256:2",
        "command": ["other"],
        "networks": [],
        "joined": "pause",
        "env": ["A=1"],
        "mounts": [{"source": "v", "target": "/d", "read_only": True}],
        "tmpfs": {"/t": ""},
        "user": "1:1",
        "cap_drop": [],
        "cap_add": ["NET_ADMIN"],
        "security_opts": [],
        "group_add": ["5"],
        "sysctls": {"a": "1"},
        "dns": ["10.10.0.2"],
        "read_only": False,
        "privileged": True,
        "pids_limit": 1,
        "memory_mb": 1,
        "cpus": 1.5,
        "ports": ["1/tcp"],
        "devices": ["/dev/x"],
        "pid_mode": "host",
        "ipc_mode": "host",
        "restart": "always",
        "running": False,
    }
    assert other.keys() == {field.name for field in dataclasses.fields(Expected)}
    for name, value in other.items():
        if name == "image":  # the engine's answer for the image that was asked
            assert compared(image={**IMAGE, "Id": value})
        else:
            assert compared(**{name: value}), name


def test_expectation_survives_its_record():
    expected = Expected.parse(
        {
            **EXPECTED,
            "env": ["A=secret"],
            "mounts": [{"source": "v", "target": "/d", "read_only": True}],
        }
    )
    document = json.loads(json.dumps(expected.to_document()))
    assert Expected.parse(document) == expected
    assert "secret" not in str(document)


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"image": "x", "nonsense": 1},
        {"image": "x", "mounts": [{"source": "v"}]},
        {"image": "x", "networks": [{"network": "n"}]},
        {"image": "x", "networks": ["n"]},
        {"image": "x", "env": [1]},
    ],
)
def test_malformed_expectation_is_refused(document):
    with pytest.raises(ValueError, match=r"."):
        Expected.parse(document)


def test_summary_holds_nothing_secret_and_nothing_volatile():
    live = container_inspection("c1")
    live["Config"]["Env"] = ["TOKEN=hunter2"]
    seen = summary(Facts(container=live, image=IMAGE, namespace="net:[1]"))
    assert seen == {
        "state": "running",
        "networks": {"net1": "10.10.0.10"},
        "pids_limit": 64,
        "memory_mb": 64,
        "restart": "no",
    }
    restarted = copy.deepcopy(live)
    restarted["State"]["Pid"] = 99
    assert summary(Facts(container=restarted, image=IMAGE, namespace="net:[2]")) == seen
    assert live["HostConfig"]["Memory"] == 64 * MEGABYTE
