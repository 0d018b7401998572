"""The door to the host: documents are whole or absent, failures are told in three lines."""

from __future__ import annotations

import gc
import ipaddress
import json
import threading

import pytest

from abox.errors import HostError
from provider import host


def test_document_is_read_as_it_was_written(tmp_path):
    path = tmp_path / "a" / "b.json"
    assert host.read_document(path) is None
    host.write_document(path, {"x": [1, "é"]})
    assert host.read_document(path) == {"x": [1, "é"]}
    assert path.stat().st_mode & 0o077 == 0
    host.remove_document(path)
    host.remove_document(path)
    assert not path.parent.exists()


def test_document_that_can_not_be_written_leaves_the_old_one(tmp_path):
    path = tmp_path / "b.json"
    host.write_document(path, {"x": 1})
    with pytest.raises(TypeError):
        host.write_document(path, {"x": object()})
    assert host.read_document(path) == {"x": 1}
    assert [each.name for each in tmp_path.iterdir()] == ["b.json"]


@pytest.mark.parametrize("text", ["", "{", "[]", "\udcff"])
def test_broken_document_is_an_error_that_names_it(tmp_path, text):
    path = tmp_path / "b.json"
    path.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(HostError, match=r"b\.json"):
        host.read_document(path)


def test_lock_keeps_others_out(tmp_path):
    order = []

    def second():
        with host.locked(tmp_path):
            order.append("second")

    with host.locked(tmp_path):
        thread = threading.Thread(target=second)
        thread.start()
        thread.join(0.1)
        order.append("first")
    thread.join(5)
    assert order == ["first", "second"]


def test_libvirt_networks_are_read_without_a_daemon(tmp_path, monkeypatch):
    monkeypatch.setattr(host, "_LIBVIRT_NETWORKS", tmp_path)
    assert host.libvirt_networks() == []
    (tmp_path / "default.xml").write_text(
        "<network><name>default</name><bridge name='virbr0'/>"
        "<ip address='10.10.7.1' netmask='255.255.255.0'/>"
        "<ip family='ipv6' address='fd00::1' prefix='64'/></network>"
    )
    (tmp_path / "odd.xml").write_text("<network>")
    assert host.libvirt_networks() == [
        host.Taken(ipaddress.IPv4Network("10.10.7.0/24"), "the libvirt network 'default'", "virbr0")
    ]


def test_routes_are_networks_without_the_default(monkeypatch):
    listed = [
        {"dst": "default", "gateway": "192.0.2.1", "dev": "eth0"},
        {"dst": "10.10.3.0/24", "dev": "abx-p"},
        {"dst": "10.10.4.9", "type": "blackhole"},
    ]
    listed_v6 = [
        {"dst": "default", "gateway": "fe80::1", "dev": "eth0"},
        {"dst": "fdab:5c1e:7d04:3::/64", "dev": "abx-pe"},
    ]
    monkeypatch.setattr(
        host, "run", lambda *args: json.dumps(listed_v6 if "-6" in args else listed)
    )
    assert [(str(route.network), route.interface) for route in host.routes()] == [
        ("10.10.3.0/24", "abx-p"),
        ("10.10.4.9/32", ""),
        ("fdab:5c1e:7d04:3::/64", "abx-pe"),
    ]
    monkeypatch.setattr(host, "run", lambda *_: "")  # ip prints nothing if there is no route
    assert host.routes() == []


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_no_docker_engine_is_told_in_three_lines(monkeypatch, tmp_path):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    caught = []

    def ask():  # a thread of its own, since clients are kept per thread
        try:
            host.engine()
        except HostError as error:
            caught.append((error.what, error.remedy))  # its traceback would hold the socket

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join(10)
    gc.collect()  # the SDK leaves its socket to the collector; here, not in another test
    ((what, remedy),) = caught
    assert "Docker" in what
    assert "none.sock" in what
    assert "dockerd" in remedy


def test_setting_that_the_kernel_lacks_is_absent(tmp_path, monkeypatch):
    monkeypatch.setattr(host, "_PROC_SYS", tmp_path)
    assert host.read_setting("net.bridge.x") is None
    (tmp_path / "net" / "bridge").mkdir(parents=True)
    host.write_setting("net.bridge.x", "1")
    assert host.read_setting("net.bridge.x") == "1"
    with pytest.raises(HostError, match=r"net\.none\.x=1"):
        host.write_setting("net.none.x", "1")
