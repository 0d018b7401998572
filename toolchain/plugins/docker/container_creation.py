"""From a container's planned state to what the engine's API takes."""

from __future__ import annotations

import base64
import io
import tarfile
import time
from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, Final

from toolchain.plugins.bridge.resource import ResourceError, values
from toolchain.plugins.docker.durations import parse_duration
from toolchain.plugins.docker.labels import labels_to_map
from toolchain.plugins.wire_values import Properties, Value

MIB: Final = 1024 * 1024

SUBPATH_API: Final = (1, 45)
"""First version of the API with which the official plugin takes `volumeOptions`."""

UNCONFINED_PATHS: Final = "systempaths=unconfined"
"""A security option that the client turns into empty lists of paths."""


def creation_body(wanted: Mapping[str, Value], version: tuple[int, int]) -> dict[str, Any]:
    """Body of a request to make the container.

    Raises:
        ResourceError: a value has no meaning for Docker.
    """
    body: dict[str, Any] = {
        "Image": wanted["image"],
        "Hostname": values(wanted, "hostname") or "",
        "Domainname": values(wanted, "domainname") or "",
        "User": values(wanted, "user") or "",
        "Tty": bool(values(wanted, "tty")),
        "OpenStdin": bool(values(wanted, "stdinOpen")),
        "WorkingDir": values(wanted, "workingDir") or "",
        "Env": values(wanted, "envs") or [],
        "Labels": labels_to_map(values(wanted, "labels")),
        "HostConfig": _host_config(wanted, version),
    }
    if "" in (values(wanted, "command") or []):
        raise ResourceError("values for command may not be empty")
    body.update(_given(wanted, _OF_CONTAINER))
    if values(wanted, "healthcheck"):
        body["Healthcheck"] = _healthcheck(wanted["healthcheck"])
    if values(wanted, "ports"):
        body["ExposedPorts"] = {_port_key(port): {} for port in wanted["ports"]}
    anonymous = [
        item["containerPath"] for item in _volumes(wanted) if values(item, "containerPath")
    ]
    if anonymous:
        body["Volumes"] = {path: {} for path in anonymous}
    return body


_OF_CONTAINER: Final = {
    "Cmd": "command",
    "Entrypoint": "entrypoints",
    "StopSignal": "stopSignal",
    "StopTimeout": "stopTimeout",
}


def _given(wanted: Mapping[str, Value], names: Mapping[str, str]) -> dict[str, Any]:
    """Properties that are set, under the engine's names."""
    return {theirs: wanted[ours] for theirs, ours in names.items() if values(wanted, ours)}


def _host_config(wanted: Mapping[str, Value], version: tuple[int, int]) -> dict[str, Any]:
    config: dict[str, Any] = {
        "Privileged": bool(values(wanted, "privileged")),
        "PublishAllPorts": bool(values(wanted, "publishAllPorts")),
        "RestartPolicy": restart_policy(wanted),
        "Runtime": values(wanted, "runtime") or "",
        "AutoRemove": bool(values(wanted, "rm")),
        "ReadonlyRootfs": bool(values(wanted, "readOnly")),
        "Init": bool(values(wanted, "init")),
        "LogConfig": {
            "Type": values(wanted, "logDriver") or "",
            "Config": values(wanted, "logOpts") or {},
        },
        "Mounts": [_mount(item, version) for item in values(wanted, "mounts") or []],
    }
    config.update(_given(wanted, _OF_HOST))
    config.update(_confinement(wanted))
    config.update(_resources(wanted))
    config.update(_collections(wanted))
    return config


_OF_HOST: Final = {
    "Tmpfs": "tmpfs",
    "Dns": "dns",
    "DnsOptions": "dnsOpts",
    "DnsSearch": "dnsSearches",
    "NetworkMode": "networkMode",
    "UsernsMode": "usernsMode",
    "PidMode": "pidMode",
    "IpcMode": "ipcMode",
    "CgroupnsMode": "cgroupnsMode",
    "CgroupParent": "cgroupParent",
    "Sysctls": "sysctls",
    "GroupAdd": "groupAdds",
    "StorageOpt": "storageOpts",
}


def _confinement(wanted: Mapping[str, Value]) -> dict[str, Any]:
    config: dict[str, Any] = {}
    capabilities = values(wanted, "capabilities")
    if capabilities:
        config["CapAdd"] = _capabilities(values(capabilities, "adds") or [])
        config["CapDrop"] = _capabilities(values(capabilities, "drops") or [])
    options = values(wanted, "securityOpts") or []
    if options:
        config["SecurityOpt"] = [option for option in options if option != UNCONFINED_PATHS]
    if UNCONFINED_PATHS in options:
        config["MaskedPaths"] = []
        config["ReadonlyPaths"] = []
    return config


def _capabilities(names: Sequence[str]) -> list[str]:
    """Names as Docker's client sends them, and so as they are read back: `CAP_NET_ADMIN`."""
    upper = {name.upper() for name in names}
    return sorted(
        name if name == "ALL" or name.startswith("CAP_") else f"CAP_{name}" for name in upper
    )


def _resources(wanted: Mapping[str, Value]) -> dict[str, Any]:
    sizes = {
        "Memory": "memory",
        "MemoryReservation": "memoryReservation",
        "ShmSize": "shmSize",
    }
    config = {theirs: size * MIB for theirs, size in _given(wanted, sizes).items()}
    if values(wanted, "memorySwap"):
        config["MemorySwap"] = swap_bytes(wanted["memorySwap"])
    if values(wanted, "cpus"):
        config["NanoCpus"] = nano_cpus(wanted["cpus"])
    else:
        config.update(_given(wanted, {"CpuPeriod": "cpuPeriod", "CpuQuota": "cpuQuota"}))
    config.update(_given(wanted, {"CpuShares": "cpuShares", "CpusetCpus": "cpuSet"}))
    config.update(throttles(wanted))
    return config


def throttles(wanted: Mapping[str, Value]) -> dict[str, Any]:
    """Limits of reading from and writing to devices."""
    names = {
        "BlkioDeviceReadBps": "deviceReadBps",
        "BlkioDeviceReadIOps": "deviceReadIops",
        "BlkioDeviceWriteBps": "deviceWriteBps",
        "BlkioDeviceWriteIOps": "deviceWriteIops",
    }
    return {
        theirs: [{"Path": item["path"], "Rate": item["rate"]} for item in wanted[ours]]
        for theirs, ours in names.items()
        if values(wanted, ours)
    }


def restart_policy(wanted: Mapping[str, Value]) -> dict[str, Any]:
    """When the engine starts the container again."""
    return {
        "Name": values(wanted, "restart") or "",
        "MaximumRetryCount": values(wanted, "maxRetryCount") or 0,
    }


def swap_bytes(swap_mb: int) -> int:
    """Memory and swap in bytes; -1, no limit, stays."""
    return swap_mb * MIB if swap_mb > 0 else swap_mb


def nano_cpus(cpus: str) -> int:
    """Billionths of a processor.

    Raises:
        ResourceError: it is no number with at most nine decimals.
    """
    try:
        nano = Decimal(cpus) * 10**9
    except InvalidOperation as error:
        raise ResourceError(
            f"Error setting cpus: failed to parse {cpus} as a rational number"
        ) from error
    if not nano.is_finite() or nano != nano.to_integral_value():
        raise ResourceError("Error setting cpus: value is too precise")
    return int(nano)


def _collections(wanted: Mapping[str, Value]) -> dict[str, Any]:
    config: dict[str, Any] = {}
    if values(wanted, "hosts"):
        config["ExtraHosts"] = [f"{item['host']}:{item['ip']}" for item in wanted["hosts"]]
    if values(wanted, "ulimits"):
        config["Ulimits"] = [
            {"Name": item["name"], "Soft": item["soft"], "Hard": item["hard"]}
            for item in wanted["ulimits"]
        ]
    if values(wanted, "devices"):
        config["Devices"] = [
            {
                "PathOnHost": item["hostPath"],
                "PathInContainer": values(item, "containerPath") or item["hostPath"],
                "CgroupPermissions": item["permissions"],
            }
            for item in wanted["devices"]
        ]
    if values(wanted, "ports"):
        config["PortBindings"] = _port_bindings(wanted["ports"])
    binds = [_bind(item) for item in _volumes(wanted) if _bind_source(item)]
    if binds:
        config["Binds"] = binds
    sources = [item["fromContainer"] for item in _volumes(wanted) if values(item, "fromContainer")]
    if sources:
        config["VolumesFrom"] = sources
    return config


def _volumes(wanted: Mapping[str, Value]) -> Sequence[Properties]:
    volumes: list[Properties] = values(wanted, "volumes") or []
    for item in volumes:
        source, path = values(item, "fromContainer"), values(item, "containerPath")
        if not source and not path:
            raise ResourceError(
                "Unable to parse volumes: volume entry without container path or source container"
            )
        if source and path:
            raise ResourceError(
                "Unable to parse volumes: both a container and a path specified in a volume entry"
            )
    return volumes


def _bind_source(item: Mapping[str, Value]) -> str:
    return str(values(item, "hostPath") or values(item, "volumeName") or "")


def _bind(item: Mapping[str, Value]) -> str:
    mode = "ro" if values(item, "readOnly") else "rw"
    if values(item, "selinuxRelabel"):
        mode += f",{item['selinuxRelabel']}"
    return f"{_bind_source(item)}:{item['containerPath']}:{mode}"


def _port_key(port: Mapping[str, Value]) -> str:
    return f"{port['internal']}/{port['protocol']}"


def _port_bindings(ports: Sequence[Properties]) -> dict[str, list[dict[str, str]]]:
    bindings: dict[str, list[dict[str, str]]] = {}
    for port in ports:
        binding = {"HostIp": port["ip"], "HostPort": str(values(port, "external") or 0)}
        bindings.setdefault(_port_key(port), []).append(binding)
    return bindings


def _mount(item: Mapping[str, Value], version: tuple[int, int]) -> dict[str, Any]:
    mount: dict[str, Any] = {
        "Type": item["type"],
        "Target": item["target"],
        "Source": values(item, "source") or "",
        "ReadOnly": bool(values(item, "readOnly")),
    }
    options = {
        "bind": ("BindOptions", "bindOptions", _bind_options),
        "volume": ("VolumeOptions", "volumeOptions", _volume_options),
        "tmpfs": ("TmpfsOptions", "tmpfsOptions", _tmpfs_options),
    }
    theirs, ours, convert = options[item["type"]]
    if item.get(ours) is None:
        return mount
    if ours == "volumeOptions" and version < SUBPATH_API:
        raise ResourceError("Setting VolumeOptions.Subpath requires docker version 1.45 or higher")
    mount[theirs] = convert(item[ours])
    return mount


def _bind_options(options: Mapping[str, Value]) -> dict[str, Any]:
    return {"Propagation": values(options, "propagation") or ""}


def _volume_options(options: Mapping[str, Value]) -> dict[str, Any]:
    return {
        "NoCopy": bool(values(options, "noCopy")),
        "Labels": labels_to_map(values(options, "labels")),
        "DriverConfig": {
            "Name": values(options, "driverName") or "",
            "Options": values(options, "driverOptions") or {},
        },
        "Subpath": values(options, "subpath") or "",
    }


def _tmpfs_options(options: Mapping[str, Value]) -> dict[str, Any]:
    return {
        "SizeBytes": values(options, "sizeBytes") or 0,
        "Mode": values(options, "mode") or 0,
    }


def _healthcheck(check: Mapping[str, Value]) -> dict[str, Any]:
    return {
        "Test": values(check, "tests") or [],
        "Interval": parse_duration(check["interval"]),
        "Timeout": parse_duration(check["timeout"]),
        "StartPeriod": parse_duration(check["startPeriod"]),
        "StartInterval": parse_duration(check["startInterval"]),
        "Retries": values(check, "retries") or 0,
    }


def attachment_body(identity: str, attachment: Mapping[str, Value]) -> dict[str, Any]:
    """Body of a request to connect a container to a network."""
    pairs = [item.partition("=") for item in values(attachment, "driverOpts") or []]
    return {
        "Container": identity,
        "EndpointConfig": {
            "Aliases": values(attachment, "aliases") or [],
            "MacAddress": values(attachment, "macAddress") or "",
            "DriverOpts": {key: value for key, equals, value in pairs if equals},
            "GwPriority": values(attachment, "gwPriority") or 0,
            "IPAMConfig": {
                "IPv4Address": values(attachment, "ipv4Address") or "",
                "IPv6Address": values(attachment, "ipv6Address") or "",
                "LinkLocalIPs": values(attachment, "linkLocalIps") or [],
            },
        },
    }


def upload_archive(upload: Mapping[str, Value]) -> bytes:
    """A tar archive with the one file of an upload.

    Raises:
        ResourceError: not exactly one source is given, or it can't be read.
    """
    content = _upload_content(upload)
    usual = "744" if values(upload, "executable") else "644"
    mode = int(values(upload, "permissions") or usual, 8)
    header = tarfile.TarInfo(str(upload["file"]))
    header.size, header.mode, header.mtime = len(content), mode, int(time.time())
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        tar.addfile(header, io.BytesIO(content))
    return archive.getvalue()


def _upload_content(upload: Mapping[str, Value]) -> bytes:
    sources = [key for key in ("content", "contentBase64", "source") if values(upload, key)]
    if not sources:
        raise ResourceError(
            "error with upload content: one of 'content', 'content_base64', or 'source' must be set"
        )
    if len(sources) > 1:
        raise ResourceError(
            "error with upload content: "
            "only one of 'content', 'content_base64', or 'source' can be set"
        )
    source, value = sources[0], str(upload[sources[0]])
    if source == "content":
        return value.encode()
    if source == "contentBase64":
        return base64.b64decode(value)
    try:
        return Path(value).read_bytes()
    except OSError as error:
        raise ResourceError(f"could not read file: {error}") from error
