"""Which of a machine's package sources the images are built from."""

from __future__ import annotations

from images.apt import KEYRING, Source, parse_options, parse_targets

TARGETS = """\
Debian|bookworm|bookworm|main|http://mirror.test/debian/
Debian|bookworm|bookworm|contrib|http://mirror.test/debian/
Debian|bookworm-updates|bookworm-updates|main|http://mirror.test/debian/
Debian|bookworm-security|bookworm-security|main|http://mirror.test/debian-security/
Debian|bookworm|bookworm|main|http://mirror.test/debian/
Debian|bookworm-backports|bookworm-backports|main|http://mirror.test/debian/
Debian|trixie|trixie|main|http://mirror.test/debian/
Docker|bookworm|bookworm|stable|http://vendor.test/docker/
Docker|bookworm|bookworm|main|http://vendor.test/docker/
|||
"""


def test_only_debians_own_main_archives_are_taken() -> None:
    """Vendors, other releases, backports and other components are left out, doubles too."""
    assert parse_targets(TARGETS) == [
        Source("http://mirror.test/debian-security/", "bookworm-security", "main"),
        Source("http://mirror.test/debian/", "bookworm", "main"),
        Source("http://mirror.test/debian/", "bookworm-updates", "main"),
    ]


def test_release_named_by_its_role_is_known_by_its_codename() -> None:
    """A machine that writes `oldstable` still gives bookworm."""
    (source,) = parse_targets("Debian|bookworm|oldstable|main|http://mirror.test/debian/\n")
    assert source.line() == f"deb [signed-by={KEYRING}] http://mirror.test/debian/ oldstable main"


def test_nothing_known_gives_no_source() -> None:
    """Neither an empty answer nor a strange one yields a source."""
    assert parse_targets("") == parse_targets("E: nonsense\n") == []


def test_proxy_and_tls_settings_are_handed_on() -> None:
    """Settings of the transport are kept, all others are not."""
    dump = """\
Acquire::http::Proxy "http://proxy.test:3142";
Acquire::https::CAInfo "/etc/ssl/certs/corporate.pem";
Acquire::http::Proxy::mirror.test "DIRECT";
Acquire::https::Verify-Peer "";
Acquire::cdrom::mount "/media/cdrom/";
Dir::Etc::sourcelist "sources.list";
DPkg::Post-Invoke:: "rm -rf /";
"""
    assert parse_options(dump) == [
        'Acquire::http::Proxy "http://proxy.test:3142"',
        'Acquire::https::CAInfo "/etc/ssl/certs/corporate.pem"',
        'Acquire::http::Proxy::mirror.test "DIRECT"',
    ]
