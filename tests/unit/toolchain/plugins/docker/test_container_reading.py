"""What is read back of a container, and what is not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from toolchain.plugins.docker.container_fields import CONTAINER
from toolchain.plugins.docker.container_reading import live_state, render_cpus

NEVER_READ = {
    "attach",
    "cgroupParent",
    "cgroupnsMode",
    "containerLogs",
    "containerReadRefreshTimeoutMilliseconds",
    "cpuPeriod",
    "cpuQuota",
    "destroyGraceSeconds",
    "deviceRequests",
    "envs",
    "gpus",
    "labels",
    "logs",
    "networksAdvanced",
    "removeVolumes",
    "start",
    "uploads",
    "volumes",
    "wait",
    "waitTimeout",
}
"""The official plugin doesn't read these, so what changes in them is never seen."""

ONLY_IF = {
    "mustRun": "the container is stopped",
    "exitCode": "the container is stopped",
    "capabilities": "the engine has some",
    "healthcheck": "the engine has one",
    "cpus": "the engine has a limit",
    "ports": "the program gives some",
    "ulimits": "the program gives some",
    "devices": "the program gives some",
    "pidMode": "the program gives one",
}
"""Read under a condition."""


def inspected(**host_config: Any) -> dict[str, Any]:
    """An engine's answer about a plain running container."""
    document: dict[str, Any] = {
        "Name": "/c",
        "Image": "sha256:01",
        "Platform": "linux",
        "State": {"Running": True, "ExitCode": 0},
        "Config": {
            "Image": "name:tag",
            "Hostname": "h",
            "Domainname": "",
            "Cmd": None,
            "Entrypoint": None,
            "User": "",
            "WorkingDir": "",
            "Tty": False,
            "OpenStdin": False,
        },
        "NetworkSettings": {"Bridge": "", "Networks": {}, "Ports": {}},
        "HostConfig": {
            "AutoRemove": False,
            "ReadonlyRootfs": False,
            "PublishAllPorts": False,
            "RestartPolicy": {"Name": "no", "MaximumRetryCount": 0},
            "Runtime": "runc",
            "Privileged": False,
            "LogConfig": {"Type": "json-file", "Config": {}},
            "NetworkMode": "bridge",
            "UsernsMode": "",
            "PidMode": "host",
            "IpcMode": "private",
            "Memory": 0,
            "MemoryReservation": 0,
            "MemorySwap": -1,
            "ShmSize": 67108864,
            "NanoCpus": 0,
            "CpuShares": 0,
            "CpusetCpus": "",
            **host_config,
        },
    }
    return document


def test_every_property_is_read_or_known_not_to_be() -> None:
    """No more than the official plugin, no less: each property stands in one list."""
    read = live_state(inspected(), {})
    assert read.keys() == CONTAINER.keys() - NEVER_READ - ONLY_IF.keys()


def test_conditions_of_reading() -> None:
    """Read where the engine has something, or where the program gives something."""
    some = {
        "CapAdd": ["CAP_CHOWN"],
        "NanoCpus": 250_000_000,
        "Ulimits": [{"Name": "nofile", "Soft": 1, "Hard": 2}],
        "Devices": [
            {"PathOnHost": "/d", "PathInContainer": "/e", "CgroupPermissions": "r"},
        ],
    }
    found = inspected(**some)
    found["Config"]["Healthcheck"] = {"Test": ["NONE"]}
    found["State"] = {"Running": False, "ExitCode": 9}
    found["HostConfig"]["LogConfig"]["Config"] = {"max-size": "1m"}
    given = {
        "mustRun": True,
        "ports": [{"internal": 80}],
        "ulimits": [{"name": "nofile"}],
        "devices": [{"hostPath": "/d"}],
        "logOpts": {"a": "1"},
        "pidMode": "x",
    }
    read = live_state(found, given)
    assert read["mustRun"] is False
    assert read["exitCode"] == 9
    assert read["capabilities"] == {"adds": ["CAP_CHOWN"], "drops": []}
    assert read["cpus"] == "0.25"
    assert read["healthcheck"]["tests"] == ["NONE"]
    assert read["ulimits"] == [{"name": "nofile", "soft": 1, "hard": 2}]
    assert read["devices"] == [{"hostPath": "/d", "containerPath": "", "permissions": "r"}]
    assert read["pidMode"] == "host"
    assert read["logOpts"] == {"max-size": "1m"}
    assert live_state(found, {})["logOpts"] == {}
    assert read["ports"] == []


def test_container_that_need_not_run_is_left_alone() -> None:
    """Stopped and not wanted to run: no change."""
    found = inspected()
    found["State"]["Running"] = False
    assert (
        "mustRun" not in live_state(found, {"mustRun": False})
        or not live_state(found, {"mustRun": False})["mustRun"]
    )


@pytest.mark.parametrize(
    ("image", "read"), [("sha256:00", "sha256:01"), ("name:tag", "name:tag"), ("x", "name:tag")]
)
def test_image_is_read_in_the_form_it_was_given(image: str, read: str) -> None:
    """By id if it was given by id, else by name."""
    assert live_state(inspected(), {"image": image})["image"] == read


@pytest.mark.parametrize(
    ("nano", "read"),
    [
        (500_000_000, "0.5"),
        (1_000_000_000, "1.0"),
        (250_000_000, "0.25"),
        (1_500_000_000, "1.5"),
        (2_000_000_000, "2.0"),
        (10_000_000_000, "10."),  # the official plugin's own slip
    ],
)
def test_cpus_are_read_as_the_official_plugin_spells_them(nano: int, read: str) -> None:
    """A program that spells them otherwise is replaced for ever."""
    assert render_cpus(nano) == read


def test_ports_are_sorted_and_one_binding_each() -> None:
    """By the internal port; unbound ones don't show."""
    found = inspected()
    found["NetworkSettings"]["Ports"] = {
        "443/tcp": [{"HostIp": "0.0.0.0", "HostPort": "8443"}],
        "53/udp": [{"HostIp": "127.0.0.1", "HostPort": "5353"}],
        "9/tcp": None,
    }
    ports = live_state(found, {"ports": [{"internal": 53}]})["ports"]
    assert [(port["internal"], port["external"], port["protocol"]) for port in ports] == [
        (53, 5353, "udp"),
        (443, 8443, "tcp"),
    ]


def test_mounts_are_read_with_their_options() -> None:
    """But not where the official plugin trips over labels."""
    mount = {"Type": "tmpfs", "Target": "/t", "TmpfsOptions": {"SizeBytes": 5, "Mode": 448}}
    (read,) = live_state(inspected(Mounts=[mount]), {})["mounts"]
    assert read["tmpfsOptions"] == {"sizeBytes": 5, "mode": 448}
    assert read["bindOptions"] is None
    labelled = {"Type": "volume", "Target": "/t", "VolumeOptions": {"Labels": {"a": "1"}}}
    kept = live_state(inspected(Mounts=[labelled]), {"mounts": ["as before"]})
    assert kept["mounts"] == ["as before"]


def test_state_is_plain_data() -> None:
    """It can be written as JSON: nothing of the engine's answer is handed on unread."""
    assert json.loads(json.dumps(live_state(inspected(), {})))
