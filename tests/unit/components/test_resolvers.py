"""Resolvers of the host: the first file that names a usable one counts."""

from ipaddress import IPv4Address

import pytest

from abox.errors import HostError
from components.resolvers import host_resolvers


def files(tmp_path, *texts):
    paths = []
    for number, text in enumerate(texts):
        path = tmp_path / str(number)
        path.write_text(text)
        paths.append(path)
    return tuple(paths)


def test_the_real_resolvers_behind_a_stub_are_found(tmp_path):
    found = host_resolvers(
        files(tmp_path, "nameserver 127.0.0.53\n", "nameserver 192.0.2.53\nnameserver 192.0.2.54\n")
    )
    assert found == (IPv4Address("192.0.2.53"), IPv4Address("192.0.2.54"))


def test_a_missing_file_is_skipped(tmp_path):
    assert host_resolvers((tmp_path / "none", *files(tmp_path, "nameserver 192.0.2.53\n")))


def test_none_at_all_is_an_error_that_names_the_key(tmp_path):
    with pytest.raises(HostError, match="upstream_dns"):
        host_resolvers(files(tmp_path, "nameserver ::1\n", "search example.com\n"))
