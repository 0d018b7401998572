"""What a container asks of the engine: no property is dropped on the way."""

from __future__ import annotations

import io
import tarfile
from typing import Any

import pytest

from toolchain.plugins.bridge.fields import Field, Fields, Kind
from toolchain.plugins.bridge.resource import ResourceError
from toolchain.plugins.docker.container_creation import (
    MIB,
    attachment_body,
    creation_body,
    nano_cpus,
    upload_archive,
)
from toolchain.plugins.docker.container_fields import CONTAINER

NEW_API = (1, 47)
OLD_API = (1, 41)
BASE: dict[str, Any] = {"name": "c", "image": "sha256:00", "networkMode": "bridge"}

ELSEWHERE = {
    "name",  # in the request's query
    "platform",  # likewise
    "networksAdvanced",  # a request each
    "uploads",  # likewise
    "start",  # decides whether a request is made
    "wait",
    "waitTimeout",
    "mustRun",  # read at refreshes and updates
    "removeVolumes",  # of the removal
    "destroyGraceSeconds",  # of the removal
    "containerReadRefreshTimeoutMilliseconds",  # nothing has to be waited for
    "attach",  # refused unless false
    "logs",  # likewise
}
"""Properties that aren't in the body of the creation."""


def body(**properties: Any) -> dict[str, Any]:
    return creation_body({**BASE, **properties}, NEW_API)


def sample(key: str, field: Field) -> Any:
    """A value that shows in what is sent."""
    special: dict[str, Any] = {
        "type": "volume",
        "cpus": "0.25",
        "permissions": "rw",
        "ip": "127.0.0.1",
        "interval": "5s",
        "timeout": "5s",
        "startPeriod": "5s",
        "startInterval": "5s",
    }
    if key in special:
        return special[key]
    if field.kind is Kind.FLAG:
        return True
    if field.kind is Kind.WHOLE:
        return 7
    if field.kind is Kind.MAP:
        return {"k": "v"}
    if field.fields is not None:
        item = filled(field.fields)
        return item if field.single else [item]
    return ["text"] if field.kind in (Kind.LIST, Kind.SET) else "text"


def filled(fields: Fields) -> dict[str, Any]:
    return {key: sample(key, field) for key, field in fields.items() if field.settable}


SENT = [
    key
    for key, field in CONTAINER.items()
    if field.settable and field.implemented and key not in ELSEWHERE
]


@pytest.mark.parametrize("key", SENT)
def test_every_property_reaches_the_engine(key: str) -> None:
    """A property that is set changes the request; none is accepted and ignored."""
    extra: dict[str, Any] = {}
    if key == "volumes":
        extra = {"volumes": [{"containerPath": "/a", "volumeName": "v"}]}
    given = extra.get(key, sample(key, CONTAINER[key]))
    assert body(**{key: given}) != body(**({"image": "other"} if key == "image" else {}))


@pytest.mark.parametrize(
    ("key", "nested"),
    [
        (key, nested)
        for key in SENT
        for nested in (CONTAINER[key].fields or {})
        if key not in ("volumes", "mounts") and (CONTAINER[key].fields or {})[nested].settable
    ],
)
def test_every_nested_property_reaches_the_engine(key: str, nested: str) -> None:
    """The same for the properties of objects."""
    fields = CONTAINER[key].fields or {}
    item = filled(fields)
    changed = {**item, nested: other(item[nested])}
    single = CONTAINER[key].single
    one, another = (item, changed) if single else ([item], [changed])
    assert body(**{key: one}) != body(**{key: another})


def other(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, list):
        return [*value, "more"]
    return "9s" if value == "5s" else f"{value}0"


@pytest.mark.parametrize(
    ("mount", "sent"),
    [
        (
            {
                "type": "bind",
                "target": "/a",
                "source": "/b",
                "bindOptions": {"propagation": "slave"},
            },
            {
                "Type": "bind",
                "Target": "/a",
                "Source": "/b",
                "ReadOnly": False,
                "BindOptions": {"Propagation": "slave"},
            },
        ),
        (
            {"type": "volume", "target": "/a", "source": "v", "readOnly": True},
            {"Type": "volume", "Target": "/a", "Source": "v", "ReadOnly": True},
        ),
        (
            {"type": "tmpfs", "target": "/a", "tmpfsOptions": {"sizeBytes": 1, "mode": 0o700}},
            {
                "Type": "tmpfs",
                "Target": "/a",
                "Source": "",
                "ReadOnly": False,
                "TmpfsOptions": {"SizeBytes": 1, "Mode": 0o700},
            },
        ),
        (
            {
                "type": "volume",
                "target": "/a",
                "source": "v",
                "volumeOptions": {"noCopy": True, "labels": [{"label": "a", "value": "1"}]},
            },
            {
                "Type": "volume",
                "Target": "/a",
                "Source": "v",
                "ReadOnly": False,
                "VolumeOptions": {
                    "NoCopy": True,
                    "Labels": {"a": "1"},
                    "DriverConfig": {"Name": "", "Options": {}},
                    "Subpath": "",
                },
            },
        ),
    ],
    ids=["bind", "volume", "tmpfs", "volume-options"],
)
def test_mounts_are_sent_whole(mount: dict[str, Any], sent: dict[str, Any]) -> None:
    """Options go along for the mount's own type."""
    assert body(mounts=[mount])["HostConfig"]["Mounts"] == [sent]


def test_volume_options_need_a_newer_engine() -> None:
    """The official plugin refuses them on an engine like Debian's, and so does this one."""
    mount = {"type": "volume", "target": "/a", "source": "v", "volumeOptions": {"noCopy": True}}
    with pytest.raises(ResourceError, match=r"1\.45"):
        creation_body({**BASE, "mounts": [mount]}, OLD_API)


@pytest.mark.parametrize(
    ("volume", "binds", "paths", "sources"),
    [
        ({"containerPath": "/a", "volumeName": "v"}, ["v:/a:rw"], ["/a"], None),
        ({"containerPath": "/a", "hostPath": "/h", "readOnly": True}, ["/h:/a:ro"], ["/a"], None),
        (
            {"containerPath": "/a", "hostPath": "/h", "selinuxRelabel": "z"},
            ["/h:/a:rw,z"],
            ["/a"],
            None,
        ),
        ({"containerPath": "/a"}, None, ["/a"], None),
        ({"fromContainer": "other"}, None, None, ["other"]),
    ],
    ids=["named", "host", "relabel", "anonymous", "from"],
)
def test_volumes_are_spelled_as_binds(
    volume: dict[str, Any], binds: Any, paths: Any, sources: Any
) -> None:
    """Each way to name a volume."""
    sent = body(volumes=[volume])
    assert sent["HostConfig"].get("Binds") == binds
    assert sent.get("Volumes") == (None if paths is None else {path: {} for path in paths})
    assert sent["HostConfig"].get("VolumesFrom") == sources


@pytest.mark.parametrize(
    "volume", [{}, {"fromContainer": "other", "containerPath": "/a"}], ids=["nothing", "both"]
)
def test_volume_without_a_meaning_is_an_error(volume: dict[str, Any]) -> None:
    """Neither path nor source, or both."""
    with pytest.raises(ResourceError, match="Unable to parse volumes"):
        body(volumes=[volume])


def test_sizes_are_in_mebibytes() -> None:
    """Memory is given in MiB; -1 is no limit for swap."""
    sent = body(memory=64, memorySwap=-1, shmSize=32)["HostConfig"]
    assert (sent["Memory"], sent["MemorySwap"], sent["ShmSize"]) == (64 * MIB, -1, 32 * MIB)


@pytest.mark.parametrize(("cpus", "nano"), [("0.5", 500_000_000), ("1.0", 10**9), ("2", 2 * 10**9)])
def test_cpus_are_a_decimal(cpus: str, nano: int) -> None:
    """Billionths, exactly."""
    assert nano_cpus(cpus) == nano


@pytest.mark.parametrize("cpus", ["half", "0.0000000001", "NaN", "inf", "1/2"])
def test_bad_cpus_are_an_error(cpus: str) -> None:
    """No number, or one that is too precise."""
    with pytest.raises(ResourceError, match="Error setting cpus"):
        nano_cpus(cpus)


def test_empty_argument_is_refused() -> None:
    """As the official plugin does."""
    with pytest.raises(ResourceError, match="values for command may not be empty"):
        body(command=["sh", ""])


def test_unconfined_paths_are_the_client_s_work() -> None:
    """The option isn't sent; empty lists of paths are."""
    sent = body(securityOpts=["systempaths=unconfined", "no-new-privileges:true"])["HostConfig"]
    assert sent["SecurityOpt"] == ["no-new-privileges:true"]
    assert sent["MaskedPaths"] == []
    assert sent["ReadonlyPaths"] == []
    assert "MaskedPaths" not in body(securityOpts=["no-new-privileges:true"])["HostConfig"]


def test_attachment_is_sent_whole() -> None:
    """Every property of an attachment reaches the engine."""
    attachment = {
        "name": "n",
        "aliases": ["a"],
        "ipv4Address": "10.0.0.2",
        "ipv6Address": "fd00::2",
        "linkLocalIps": ["169.254.1.1"],
        "macAddress": "02:42:0a:00:00:02",
        "driverOpts": ["k=v", "nonsense"],
        "gwPriority": 3,
    }
    assert attachment.keys() == (CONTAINER["networksAdvanced"].fields or {}).keys()
    assert attachment_body("1", attachment) == {
        "Container": "1",
        "EndpointConfig": {
            "Aliases": ["a"],
            "MacAddress": "02:42:0a:00:00:02",
            "DriverOpts": {"k": "v"},
            "GwPriority": 3,
            "IPAMConfig": {
                "IPv4Address": "10.0.0.2",
                "IPv6Address": "fd00::2",
                "LinkLocalIPs": ["169.254.1.1"],
            },
        },
    }


@pytest.mark.parametrize(
    ("upload", "mode"),
    [
        ({"content": "x"}, 0o644),
        ({"contentBase64": "eA==", "executable": True}, 0o744),
        ({"content": "x", "permissions": "0400"}, 0o400),
    ],
)
def test_upload_is_an_archive_of_one_file(upload: dict[str, Any], mode: int) -> None:
    """Content and mode as given."""
    archive = upload_archive({"file": "/etc/f", **upload})
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        (entry,) = tar.getmembers()
        content = tar.extractfile(entry)
        assert content is not None
        assert content.read() == b"x"
    assert entry.name == "/etc/f"
    assert entry.mode == mode


@pytest.mark.parametrize(
    ("upload", "said"),
    [
        ({}, "one of 'content'"),
        ({"content": "x", "source": "y"}, "only one of 'content'"),
        ({"source": "/abxt/no/such/file"}, "could not read file"),
    ],
)
def test_upload_needs_exactly_one_source(upload: dict[str, Any], said: str) -> None:
    """None, two, or one that can't be read."""
    with pytest.raises(ResourceError, match=said):
        upload_archive({"file": "/etc/f", **upload})
