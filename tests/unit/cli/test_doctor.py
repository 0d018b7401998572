"""`abox doctor`: what is found, and that every fault comes with a remedy."""

from __future__ import annotations

import json
from ipaddress import IPv4Network

import pytest

from abox.errors import HostError
from cli import doctor as module
from cli import host
from cli.checkout import Checkout
from cli.doctor import (
    Finding,
    free_subnets,
    judge_acceleration,
    judge_engine,
    parse_meminfo,
    parse_os_release,
    parse_routes,
    version_of,
)
from cli.main import run
from toolchain.acceleration import Acceleration

GOOD = {
    "SecurityOptions": ["name=seccomp,profile=default"],
    "MemoryLimit": True,
    "PidsLimit": True,
    "CpuCfsQuota": True,
    "CgroupVersion": "2",
    "DockerRootDir": "/",
}


def test_a_good_engine_has_no_fault():
    levels = {one.level for one in judge_engine(GOOD) if not one.id.startswith("disk")}
    assert levels == {"ok"}


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"SecurityOptions": []}, "seccomp"),
        ({"PidsLimit": False}, "limits"),
        ({"SecurityOptions": ["name=seccomp", "name=userns"]}, "isolation"),
    ],
)
def test_a_fault_of_the_engine_comes_with_a_remedy(change, fault):
    faults = [one for one in judge_engine({**GOOD, **change}) if one.level != "ok"]
    assert fault in [one.id for one in faults]
    assert all(one.remedy for one in faults)


@pytest.mark.parametrize(
    ("known", "device", "level", "found"),
    [
        (Acceleration(type="kvm", reason="a guest booted"), True, "ok", "a guest booted"),
        (Acceleration(type="qemu", reason="it died"), True, "warning", "emulated: it died"),
        (None, True, "warning", "not probed yet"),
        (None, False, "warning", "no /dev/kvm"),
    ],
    ids=["works", "broken", "unknown", "absent"],
)
def test_doctor_says_how_virtual_machines_run_and_why(known, device, level, found):
    finding = judge_acceleration(known, device=device)
    assert finding.level == level
    assert found in finding.found
    assert bool(finding.remedy) is (level != "ok")


def test_subnets_that_anything_overlaps_are_not_free():
    assert free_subnets([]) == 256
    assert free_subnets([IPv4Network("10.10.3.0/24")]) == 255
    assert free_subnets([IPv4Network("10.11.4.0/25"), IPv4Network("10.10.4.0/24")]) == 255
    assert free_subnets([IPv4Network("10.0.0.0/8")]) == 0


def test_routes_are_read_and_the_default_route_is_none():
    text = json.dumps([{"dst": "default"}, {"dst": "10.10.3.0/24"}, {"dst": "192.0.2.9"}])
    assert [str(one) for one in parse_routes(text)] == ["10.10.3.0/24", "192.0.2.9/32"]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("v3.274.1", (3, 274)), ("20.10.24+dfsg1", (20, 10)), ("28.2.2\n", (28, 2)), ("dev", (0,))],
)
def test_versions_are_compared_by_number(text, wanted):
    assert version_of(text) == wanted


def test_files_of_the_system_are_read():
    assert parse_os_release('ID=debian\nVERSION_ID="12"\n') == {"ID": "debian", "VERSION_ID": "12"}
    assert parse_meminfo("MemAvailable:   2048 kB\n") == {"MemAvailable": 2048}


@pytest.mark.parametrize(
    ("level", "code"), [("ok", 0), ("warning", 0), ("missing", 1)], ids=["ok", "warning", "missing"]
)
def test_only_what_is_missing_fails(checkout: Checkout, monkeypatch, capsys, level, code):
    finding = Finding("x", level, "found", "do this")
    monkeypatch.setattr(module, "LOOKS", (lambda _: iter([finding]),))
    assert run(["doctor", "--json"]) == code
    document = json.loads(capsys.readouterr().out)
    assert document == {"ok": code == 0, "findings": [finding.__dict__]}
    assert run(["doctor"]) == code


def test_a_host_with_nothing_is_told_and_not_crashed_on(checkout: Checkout, monkeypatch, capsys):
    def missing(arguments, **_):
        raise HostError(what=f"{arguments[0]} was not found", why="x", remedy="y")

    monkeypatch.setattr(host, "run", missing)
    assert run(["doctor", "--json"]) == 1
    findings = {one["id"]: one for one in json.loads(capsys.readouterr().out)["findings"]}
    for name in ("docker", "nftables", "pulumi", "images"):
        assert findings[name]["level"] == "missing"
        assert findings[name]["remedy"]
