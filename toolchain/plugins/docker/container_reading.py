"""From the engine's word about a container to its state, no more than the official plugin reads.

Not read: environment, labels, volumes, uploads, the networks that the program attaches, cgroup
parent, cpu period and quota. Some are read only where the program gives them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

from toolchain.plugins.bridge.resource import values
from toolchain.plugins.docker.container_creation import MIB
from toolchain.plugins.docker.durations import render_duration
from toolchain.plugins.wire_values import Properties, Value

CPU_DECIMALS: Final = 9


def live_state(found: Mapping[str, Any], state: Mapping[str, Value]) -> Properties:
    """State with what the engine says laid over it.

    Args:
        found: the engine's answer to an inspection.
        state: state that stands; it says which of the optional properties are read.
    """
    live: Properties = dict(state)
    live.update(_running(found, state))
    live.update(_network(found, state))
    live.update(_config(found, state))
    live.update(_host_config(found["HostConfig"], state))
    live.update(_limits(found["HostConfig"]))
    return live


def _running(found: Mapping[str, Any], state: Mapping[str, Value]) -> Properties:
    if found["State"]["Running"]:
        return {}
    stopped: Properties = {"exitCode": found["State"]["ExitCode"]}
    if values(state, "mustRun"):
        stopped["mustRun"] = False  # seen as a change, and repaired by an update
    return stopped


def _network(found: Mapping[str, Any], state: Mapping[str, Value]) -> Properties:
    settings = found["NetworkSettings"]
    networks: Mapping[str, Any] = settings.get("Networks") or {}
    read: Properties = {
        "bridge": settings.get("Bridge", ""),
        "networkDatas": [_network_data(name, networks[name]) for name in sorted(networks)],
    }
    shown = found["State"]["Running"] or values(state, "mustRun")
    ports = values(state, "ports")
    if ports and shown:
        read["ports"] = _ports(settings.get("Ports") or {})
    elif ports:
        read["ports"] = [{**port, "external": values(port, "external") or 0} for port in ports]
    return read


def _network_data(name: str, endpoint: Mapping[str, Any]) -> Properties:
    return {
        "networkName": name,
        "ipAddress": endpoint["IPAddress"],
        "ipPrefixLength": endpoint["IPPrefixLen"],
        "gateway": endpoint["Gateway"],
        "globalIpv6Address": endpoint["GlobalIPv6Address"],
        "globalIpv6PrefixLength": endpoint["GlobalIPv6PrefixLen"],
        "ipv6Gateway": endpoint["IPv6Gateway"],
        "macAddress": endpoint["MacAddress"],
    }


def _ports(found: Mapping[str, Any]) -> list[Properties]:
    ports: list[Properties] = []
    for key in sorted(found, key=lambda key: int(key.partition("/")[0])):
        internal, _, protocol = key.partition("/")
        ports += [
            {
                "internal": int(internal),
                "external": int(binding["HostPort"] or 0),
                "ip": binding["HostIp"],
                "protocol": protocol,
            }
            for binding in found[key] or []
        ]
    return ports


def _config(found: Mapping[str, Any], state: Mapping[str, Value]) -> Properties:
    config = found["Config"]
    by_id = str(state.get("image", "")).startswith("sha256:")
    read: Properties = {
        "name": found["Name"].lstrip("/"),
        "image": found["Image"] if by_id else config["Image"],
        "platform": found.get("Platform", ""),
        "hostname": config["Hostname"],
        "domainname": config["Domainname"],
        "command": config["Cmd"] or [],
        "entrypoints": config["Entrypoint"] or [],
        "user": config["User"],
        "workingDir": config["WorkingDir"],
        "tty": config["Tty"],
        "stdinOpen": config["OpenStdin"],
        "stopSignal": config.get("StopSignal") or "",
        "stopTimeout": config.get("StopTimeout") or 0,
    }
    if config.get("Healthcheck"):
        read["healthcheck"] = _healthcheck(config["Healthcheck"])
    return read


def _healthcheck(found: Mapping[str, Any]) -> Properties:
    return {
        "tests": found.get("Test") or [],
        "interval": render_duration(found.get("Interval") or 0),
        "timeout": render_duration(found.get("Timeout") or 0),
        "startPeriod": render_duration(found.get("StartPeriod") or 0),
        "startInterval": render_duration(found.get("StartInterval") or 0),
        "retries": found.get("Retries") or 0,
    }


def _host_config(host: Mapping[str, Any], state: Mapping[str, Value]) -> Properties:
    read: Properties = {
        "rm": host["AutoRemove"],
        "readOnly": host["ReadonlyRootfs"],
        "dns": host.get("Dns") or [],
        "dnsOpts": host.get("DnsOptions") or [],
        "dnsSearches": host.get("DnsSearch") or [],
        "securityOpts": host.get("SecurityOpt") or [],
        "publishAllPorts": host["PublishAllPorts"],
        "restart": host["RestartPolicy"]["Name"],
        "maxRetryCount": host["RestartPolicy"]["MaximumRetryCount"],
        "init": bool(host.get("Init")),
        "runtime": host["Runtime"],
        "mounts": [_mount(mount) for mount in host.get("Mounts") or []],
        "tmpfs": host.get("Tmpfs") or {},
        "hosts": [_extra_host(entry) for entry in host.get("ExtraHosts") or []],
        "privileged": host["Privileged"],
        "logDriver": host["LogConfig"]["Type"],
        "logOpts": (host["LogConfig"].get("Config") or {}) if values(state, "logOpts") else {},
        "storageOpts": host.get("StorageOpt") or {},
        "networkMode": host["NetworkMode"],
        "usernsMode": host["UsernsMode"],
        "sysctls": host.get("Sysctls") or {},
        "ipcMode": host["IpcMode"],
        "groupAdds": host.get("GroupAdd") or [],
    }
    if _labels_of_mounts(host):
        del read["mounts"]  # the official plugin trips over them and keeps what it had
    added, dropped = host.get("CapAdd") or [], host.get("CapDrop") or []
    if added or dropped:
        read["capabilities"] = {"adds": sorted(added), "drops": sorted(dropped)}
    given: Mapping[str, Value] = {
        "ulimits": _ulimits(host.get("Ulimits") or []),
        "devices": _devices(host.get("Devices") or [], values(state, "devices") or []),
        "pidMode": host["PidMode"],
    }
    read.update({key: value for key, value in given.items() if values(state, key)})
    return read


def _labels_of_mounts(host: Mapping[str, Any]) -> bool:
    options = [mount.get("VolumeOptions") or {} for mount in host.get("Mounts") or []]
    return any(option.get("Labels") for option in options)


def _mount(found: Mapping[str, Any]) -> Properties:
    mount: Properties = {
        "target": found["Target"],
        "source": found.get("Source") or "",
        "type": found["Type"],
        "readOnly": bool(found.get("ReadOnly")),
        "bindOptions": None,
        "volumeOptions": None,
        "tmpfsOptions": None,
    }
    if found.get("BindOptions") is not None:
        mount["bindOptions"] = {"propagation": found["BindOptions"].get("Propagation") or ""}
    if found.get("VolumeOptions") is not None:
        options = found["VolumeOptions"]
        driver = options.get("DriverConfig") or {}
        mount["volumeOptions"] = {
            "noCopy": bool(options.get("NoCopy")),
            "labels": [],
            "driverName": driver.get("Name") or "",
            "driverOptions": driver.get("Options") or {},
            "subpath": options.get("Subpath") or "",
        }
    if found.get("TmpfsOptions") is not None:
        options = found["TmpfsOptions"]
        mount["tmpfsOptions"] = {
            "sizeBytes": options.get("SizeBytes") or 0,
            "mode": options.get("Mode") or 0,
        }
    return mount


def _extra_host(entry: str) -> Properties:
    name, _, address = entry.partition(":")
    return {"host": name, "ip": address.partition(":")[0]}


def _ulimits(found: Sequence[Mapping[str, Any]]) -> list[Properties]:
    return [{"name": item["Name"], "soft": item["Soft"], "hard": item["Hard"]} for item in found]


def _devices(
    found: Sequence[Mapping[str, Any]], given: Sequence[Mapping[str, Value]]
) -> list[Properties]:
    with_path = {item["hostPath"] for item in given if values(item, "containerPath")}
    return [
        {
            "hostPath": item["PathOnHost"],
            "containerPath": item["PathInContainer"] if item["PathOnHost"] in with_path else "",
            "permissions": item["CgroupPermissions"],
        }
        for item in found
    ]


def _limits(host: Mapping[str, Any]) -> Properties:
    read: Properties = {
        "memory": host["Memory"] // MIB,
        "memoryReservation": host["MemoryReservation"] // MIB,
        "memorySwap": host["MemorySwap"] // MIB if host["MemorySwap"] > 0 else host["MemorySwap"],
        "shmSize": host["ShmSize"] // MIB,
        "cpuShares": host["CpuShares"],
        "cpuSet": host["CpusetCpus"],
    }
    if host["NanoCpus"] > 0:
        read["cpus"] = render_cpus(host["NanoCpus"])
    names = {
        "deviceReadBps": "BlkioDeviceReadBps",
        "deviceReadIops": "BlkioDeviceReadIOps",
        "deviceWriteBps": "BlkioDeviceWriteBps",
        "deviceWriteIops": "BlkioDeviceWriteIOps",
    }
    for ours, theirs in names.items():
        read[ours] = [
            {"path": item["Path"], "rate": item["Rate"]} for item in host.get(theirs) or []
        ]
    return read


def render_cpus(nano: int) -> str:
    """Processors as the official plugin reads them back: `0.5`, `1.0`, `0.25`, and `10.`."""
    number = Decimal(nano) / 10**CPU_DECIMALS
    full = f"{number:.{CPU_DECIMALS}f}"
    if full.count("0") == CPU_DECIMALS:
        return f"{number:.1f}"
    return full.rstrip("0")
