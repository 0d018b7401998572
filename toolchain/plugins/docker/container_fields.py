"""What `docker:index/container:Container` takes and gives."""

from __future__ import annotations

import base64
import binascii
from typing import Final

from toolchain.plugins.bridge.fields import (
    LABEL,
    Field,
    Fields,
    Kind,
    flag,
    mapping,
    matching,
    not_below,
    objects,
    output,
    text,
    texts,
    whole,
)
from toolchain.plugins.docker.durations import parse_duration


def _duration(value: object) -> str | None:
    try:
        length = parse_duration(str(value))
    except ValueError:
        return f"{value!r} is not a valid duration"
    return None if length >= 0 else f"{value!r} duration must not be negative"


def _base64(value: object) -> str | None:
    try:
        base64.b64decode(str(value), validate=True)
    except binascii.Error:
        return f"{value!r} is not base64 decodeable"
    return None


def _host_path(value: object) -> str | None:
    return None if str(value).startswith("/") else f"{value!r} must be an absolute path"


_THROTTLE: Final[Fields] = {
    "path": text(required=True, replaces=False),
    "rate": whole(required=True, at_least=0),
}

_MOUNT: Final[Fields] = {
    "target": text(required=True, replaces=False),
    "source": text(replaces=False),
    "type": text(required=True, replaces=False, validate=matching(r"bind|volume|tmpfs")),
    "readOnly": flag(),
    "bindOptions": objects(
        Kind.LIST,
        {
            "propagation": text(
                replaces=False,
                validate=matching(r"private|rprivate|shared|rshared|slave|rslave"),
            )
        },
        replaces=False,
        single=True,
    ),
    "volumeOptions": objects(
        Kind.LIST,
        {
            "noCopy": flag(),
            "labels": objects(Kind.SET, LABEL, replaces=False),
            "driverName": text(replaces=False),
            "driverOptions": mapping(replaces=False),
            "subpath": text(),
        },
        replaces=False,
        single=True,
    ),
    "tmpfsOptions": objects(
        Kind.LIST, {"sizeBytes": whole(), "mode": whole()}, replaces=True, single=True
    ),
}

_VOLUME: Final[Fields] = {
    "fromContainer": text(),
    "containerPath": text(),
    "hostPath": text(validate=_host_path),
    "volumeName": text(),
    "readOnly": flag(replaces=True),
    "selinuxRelabel": text(validate=matching(r"z|Z")),
}

_PORT: Final[Fields] = {
    "internal": whole(required=True, replaces=True),
    "external": whole(computed=True, replaces=True),
    "ip": text(default="0.0.0.0"),  # noqa: S104 -- Docker's own default
    "protocol": text(default="tcp"),
}

_NETWORK_DATA: Final[Fields] = {
    "networkName": output(),
    "ipAddress": output(),
    "ipPrefixLength": output(Kind.WHOLE),
    "gateway": output(),
    "globalIpv6Address": output(),
    "globalIpv6PrefixLength": output(Kind.WHOLE),
    "ipv6Gateway": output(),
    "macAddress": output(),
}

_ATTACHMENT: Final[Fields] = {
    "name": text(required=True),
    "aliases": texts(Kind.SET),
    "ipv4Address": text(),
    "ipv6Address": text(),
    "linkLocalIps": texts(Kind.SET),
    "macAddress": text(),
    "driverOpts": texts(Kind.SET),
    "gwPriority": whole(replaces=True, at_least=0),
}

_UPLOAD: Final[Fields] = {
    "content": text(),
    "contentBase64": text(validate=_base64),
    "file": text(required=True),
    "executable": flag(replaces=True, default=False),
    "permissions": text(validate=matching(r"0[0-7]{3}")),
    "source": text(),
    "sourceHash": text(),
}

_HEALTHCHECK: Final[Fields] = {
    "tests": texts(Kind.LIST, replaces=False, upstream="test"),
    "interval": text(replaces=False, default="0s", validate=_duration),
    "timeout": text(replaces=False, default="0s", validate=_duration),
    "startPeriod": text(replaces=False, default="0s", validate=_duration),
    "startInterval": text(replaces=False, default="0s", validate=_duration),
    "retries": whole(default=0, at_least=0),
}

_DEVICE: Final[Fields] = {
    "hostPath": text(required=True),
    "containerPath": text(),
    "permissions": text(default="rwm"),
}

_CAPABILITIES: Final[Fields] = {
    "adds": texts(Kind.SET, upstream="add"),
    "drops": texts(Kind.SET, upstream="drop"),
}

_DEVICE_REQUEST: Final[Fields] = {
    "driver": text(default="cdi"),
    "count": whole(replaces=True, default=0),
    "deviceIds": texts(Kind.SET),
    "capabilities": texts(Kind.SET),
    "options": mapping(),
}

READ_TIMEOUT_MS: Final = 15_000

CONTAINER: Final[Fields] = {
    "name": text(required=True, autonamed=True),
    "rm": flag(default=False),
    "readOnly": flag(replaces=True, default=False),
    "start": flag(default=True),
    "wait": flag(default=False),
    "waitTimeout": whole(default=60),
    "attach": flag(default=False, offered=False),
    "logs": flag(default=False, offered=False),
    "mustRun": flag(default=True),
    "exitCode": output(Kind.WHOLE),
    "containerLogs": output(),
    "image": text(required=True),
    "hostname": text(computed=True),
    "domainname": text(),
    "command": texts(Kind.LIST, computed=True),
    "entrypoints": texts(Kind.LIST, computed=True, upstream="entrypoint"),
    "user": text(empty_is_unset=True),
    "dns": texts(Kind.SET),
    "dnsOpts": texts(Kind.SET),
    "dnsSearches": texts(Kind.SET, upstream="dns_search"),
    "publishAllPorts": flag(replaces=True),
    "restart": text(
        replaces=False, default="no", validate=matching(r"no|on-failure|always|unless-stopped")
    ),
    "maxRetryCount": whole(),
    "workingDir": text(empty_is_unset=True),
    "removeVolumes": flag(default=True),
    "capabilities": objects(Kind.SET, _CAPABILITIES, single=True),
    "securityOpts": texts(Kind.SET, computed=True),
    "runtime": text(computed=True),
    "platform": text(computed=True),
    "stopSignal": text(computed=True),
    "stopTimeout": whole(computed=True, replaces=True),
    "mounts": objects(Kind.SET, _MOUNT),
    "volumes": objects(Kind.SET, _VOLUME),
    "tmpfs": mapping(replaces=False),
    "ports": Field(kind=Kind.LIST, fields=_PORT, replaces=True, unordered=True),
    "hosts": objects(
        Kind.SET, {"ip": text(required=True), "host": text(required=True)}, upstream="host"
    ),
    "ulimits": objects(
        Kind.SET,
        {
            "name": text(required=True),
            "soft": whole(required=True, replaces=True),
            "hard": whole(required=True, replaces=True),
        },
        upstream="ulimit",
    ),
    "envs": texts(Kind.SET, computed=True, upstream="env"),
    "bridge": output(),
    "networkDatas": output(Kind.LIST, _NETWORK_DATA, upstream="network_data"),
    "privileged": flag(replaces=True),
    "devices": objects(Kind.SET, _DEVICE),
    "deviceReadBps": objects(Kind.SET, _THROTTLE, replaces=False),
    "deviceReadIops": objects(Kind.SET, _THROTTLE, replaces=False),
    "deviceWriteBps": objects(Kind.SET, _THROTTLE, replaces=False),
    "deviceWriteIops": objects(Kind.SET, _THROTTLE, replaces=False),
    "deviceRequests": objects(Kind.SET, _DEVICE_REQUEST, implemented=False),
    "destroyGraceSeconds": whole(),
    "labels": objects(Kind.SET, LABEL, computed=True),
    "memory": whole(at_least=0),
    "memoryReservation": whole(default=0, at_least=0),
    "memorySwap": whole(at_least=-1),
    "shmSize": Field(kind=Kind.WHOLE, computed=True, replaces=True, validate=not_below(0)),
    "cpuShares": whole(at_least=0),
    "cpuSet": text(replaces=False, validate=matching(r"\d+([,-]\d+)*")),
    "logDriver": text(computed=True),
    "logOpts": mapping(),
    "networkMode": text(default="bridge"),
    "networksAdvanced": objects(Kind.SET, _ATTACHMENT),
    "pidMode": text(),
    "usernsMode": text(),
    "uploads": objects(Kind.SET, _UPLOAD, upstream="upload"),
    "healthcheck": objects(Kind.LIST, _HEALTHCHECK, computed=True, replaces=False, single=True),
    "containerReadRefreshTimeoutMilliseconds": whole(default=READ_TIMEOUT_MS),
    "sysctls": mapping(),
    "ipcMode": text(computed=True),
    "groupAdds": texts(Kind.SET, upstream="group_add"),
    "init": flag(computed=True),
    "tty": flag(replaces=True, default=False),
    "stdinOpen": flag(replaces=True, default=False),
    "storageOpts": mapping(),
    "gpus": text(implemented=False),
    "cpus": text(),
    "cpuPeriod": whole(at_least=0),
    "cpuQuota": whole(at_least=0),
    "cgroupnsMode": text(validate=matching(r"private|host|")),
    "cgroupParent": text(),
}
"""Every property of the official plugin's containers; `implemented=False` are refused."""
