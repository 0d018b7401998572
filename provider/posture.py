"""A live container against what was asked of it: the comparison, pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from enum import Enum, auto
from typing import Any

_MEGABYTE = 1024 * 1024
_NANO = 1_000_000_000
_SHOWN_MAX = 80
"""Characters of a value that a finding shows."""


class Repair(Enum):
    """How a difference is put right without replacing the container."""

    NONE = auto()
    """It can't: only a replacement helps."""
    NETWORKS = auto()
    LIMITS = auto()
    STATE = auto()
    """Start, unpause, or restart into the namespace that it shares."""


@dataclass(frozen=True)
class Finding:
    """One difference, in words."""

    text: str
    repair: Repair = Repair.NONE


@dataclass(frozen=True, kw_only=True)
class Mount:
    """A volume or bind mount."""

    source: str
    """Name of the volume, or path on the host."""
    target: str
    read_only: bool

    def __str__(self) -> str:
        return f"{self.source} at {self.target} ({'read-only' if self.read_only else 'writable'})"


@dataclass(frozen=True, kw_only=True)
class Expected:
    """What the program asked of a container; see components/host.py for the fields' meaning."""

    image: str
    command: tuple[str, ...] | None = None
    networks: Mapping[str, str] = field(default_factory=dict)
    """Network id to addresses, IPv4 before IPv6, a space between them."""
    joined: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    """Name to digest of the value: an environment may hold secrets, records and outputs may not."""
    mounts: tuple[Mount, ...] = ()
    tmpfs: Mapping[str, str] = field(default_factory=dict)
    user: str = ""
    cap_drop: tuple[str, ...] = ("ALL",)
    cap_add: tuple[str, ...] = ()
    security_opts: tuple[str, ...] = ("no-new-privileges:true",)
    group_add: tuple[str, ...] = ()
    sysctls: Mapping[str, str] = field(default_factory=dict)
    dns: tuple[str, ...] = ()
    read_only: bool = True
    privileged: bool = False
    pids_limit: int = 0
    memory_mb: int = 0
    cpus: float = 0
    ports: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    pid_mode: str = ""
    ipc_mode: str = "private"
    restart: str = "no"
    running: bool = True

    @classmethod
    def parse(cls, document: Mapping[str, Any]) -> Expected:
        """From the resource's input (env as ``NAME=value``) or from a record (env as digests).

        Raises:
            ValueError: a key is unknown or missing, or a value has the wrong form.
        """
        known = {each.name for each in fields(cls)}
        if unknown := sorted(document.keys() - known):
            raise ValueError(f"unknown key {unknown[0]!r}; valid are {', '.join(sorted(known))}")
        if "image" not in document:
            raise ValueError("the key 'image' is missing")
        values = {name: _frozen(value) for name, value in document.items()}
        try:
            values["env"] = env_digests(document.get("env") or [])
            values["networks"] = _networks(document.get("networks") or [])
            values["mounts"] = tuple(Mount(**mount) for mount in document.get("mounts") or [])
        except (TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"env, networks or mounts have the wrong form: {error}") from error
        return cls(**values)

    def to_document(self) -> dict[str, Any]:
        """For a record; ``parse`` reads it again."""
        return asdict(self)


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _networks(value: Any) -> dict[str, str]:
    if isinstance(value, Mapping):
        return dict(value)
    return {each["network"]: _both(each["address"], each.get("address_v6")) for each in value}


def _both(address: str, address_v6: str | None) -> str:
    return f"{address} {address_v6}" if address_v6 else address


def env_digests(env: Mapping[str, str] | Sequence[str]) -> dict[str, str]:
    """Name to digest of the value; digests are taken as they are."""
    if isinstance(env, Mapping):
        return dict(env)
    pairs = (line.partition("=") for line in env)
    return {name: hashlib.sha256(value.encode()).hexdigest() for name, _, value in pairs}


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What the host says about a container."""

    container: Mapping[str, Any]
    """The engine's inspection of it."""
    image: Mapping[str, Any]
    """The engine's inspection of the image that was *asked* for; empty if it doesn't exist."""
    namespace: str = ""
    """Its network namespace; empty if it doesn't run."""
    joined_namespace: str = ""
    """Network namespace of the container that it should share; empty if that doesn't run."""


def findings(expected: Expected, facts: Facts) -> list[Finding]:
    """All differences, in a fixed order; empty when the container is as it was asked."""
    return [
        *_state(expected, facts),
        *_network(expected, facts),
        *_limits(expected, facts.container["HostConfig"]),
        *_process(expected, facts),
        *_confinement(expected, facts.container["HostConfig"]),
        *_files(expected, facts.container),
    ]


def summary(facts: Facts) -> dict[str, Any]:
    """The part of a container that may change during its life; nothing secret."""
    settings = facts.container["HostConfig"]
    return {
        "state": _state_word(facts.container["State"]),
        "networks": _addresses(facts.container),
        "pids_limit": settings.get("PidsLimit") or 0,
        "memory_mb": (settings.get("Memory") or 0) // _MEGABYTE,
        "restart": _restart(settings),
    }


def _state_word(state: Mapping[str, Any]) -> str:
    if state.get("Paused"):
        return "paused"
    return "running" if state.get("Running") else "stopped"


def _state(expected: Expected, facts: Facts) -> Iterator[Finding]:
    word = _state_word(facts.container["State"])
    if word != ("running" if expected.running else "stopped"):
        yield Finding(f"the container is {word}", Repair.STATE)
    elif expected.joined and facts.namespace != facts.joined_namespace:
        yield Finding(f"it isn't in the network namespace of {expected.joined[:12]}", Repair.STATE)


def _addresses(container: Mapping[str, Any]) -> dict[str, str]:
    """Network id to the addresses that the container was given."""
    networks = container["NetworkSettings"].get("Networks") or {}
    return {
        each["NetworkID"]: _both(
            _given(each, "IPv4Address", "IPAddress"),
            _given(each, "IPv6Address", "GlobalIPv6Address"),
        )
        for each in networks.values()
        if each.get("NetworkID")
    }


def _given(endpoint: Mapping[str, Any], asked: str, had: str) -> str:
    return (endpoint.get("IPAMConfig") or {}).get(asked) or endpoint.get(had) or ""


def _network(expected: Expected, facts: Facts) -> Iterator[Finding]:
    mode = facts.container["HostConfig"].get("NetworkMode", "")
    if expected.joined:
        yield from _differs("network mode", f"container:{expected.joined}", mode)
        return
    if mode in {"host", "none"} or mode.startswith("container:"):
        yield Finding(f"network mode is {mode!r}")
        return
    live = _addresses(facts.container)
    for network in sorted(live.keys() - expected.networks.keys()):
        yield Finding(f"it is on the foreign network {network[:12]}", Repair.NETWORKS)
    for network, address in sorted(expected.networks.items()):
        if network not in live:
            yield Finding(f"it isn't on its network {network[:12]}", Repair.NETWORKS)
        elif live[network] != address:
            yield Finding(
                f"its address is {live[network] or 'none'} instead of {address}", Repair.NETWORKS
            )


def _limits(expected: Expected, live: Mapping[str, Any]) -> Iterator[Finding]:
    memory = expected.memory_mb * _MEGABYTE
    # The engine writes "no limit" as null, 0 or -1.
    pids = max(live.get("PidsLimit") or 0, 0)
    pairs = [
        ("pids limit", expected.pids_limit, pids),
        ("memory in bytes", memory, live.get("Memory") or 0),
        ("CPUs", float(expected.cpus), (live.get("NanoCpus") or 0) / _NANO),
        ("restart policy", expected.restart, _restart(live)),
    ]
    if memory:  # equal values mean that there is no swap beside the memory
        pairs.append(("memory with swap in bytes", memory, live.get("MemorySwap") or 0))
    for what, asked, found in pairs:
        yield from _differs(what, asked, found, Repair.LIMITS)


def _restart(live: Mapping[str, Any]) -> str:
    # An engine that was never told says "", which means "no".
    name: str = (live.get("RestartPolicy") or {}).get("Name") or "no"
    return name


def _process(expected: Expected, facts: Facts) -> Iterator[Finding]:
    config, image = facts.container["Config"], facts.image.get("Config") or {}
    if not facts.image:
        yield Finding(f"its image {expected.image} isn't in the engine")
    else:
        yield from _differs("image", facts.image["Id"], facts.container["Image"])
    command = image.get("Cmd") if expected.command is None else expected.command
    yield from _differs("command", list(command or []), list(config.get("Cmd") or []))
    yield from _differs("user", expected.user or image.get("User") or "", config.get("User") or "")
    asked = {**env_digests(image.get("Env") or []), **expected.env}
    live = env_digests(config.get("Env") or [])
    for name in sorted(asked.keys() | live.keys()):
        if asked.get(name) != live.get(name):
            yield Finding(f"environment variable {name} differs")  # never its value: may be secret


def _confinement(expected: Expected, live: Mapping[str, Any]) -> Iterator[Finding]:
    yield from _sets("dropped capability", map(_cap, expected.cap_drop), _caps(live, "CapDrop"))
    yield from _sets("added capability", map(_cap, expected.cap_add), _caps(live, "CapAdd"))
    asked = map(_security_opt, expected.security_opts)
    found = map(_security_opt, live.get("SecurityOpt") or [])
    yield from _sets("security option", asked, found)
    yield from _sets("group", expected.group_add, live.get("GroupAdd") or [])
    yield from _sets("published port", expected.ports, live.get("PortBindings") or {})
    devices = [device.get("PathOnHost", "") for device in live.get("Devices") or []]
    devices += [str(request) for request in live.get("DeviceRequests") or []]
    devices += live.get("DeviceCgroupRules") or []
    yield from _sets("device", expected.devices, devices)
    yield from _differs("read-only root", expected.read_only, bool(live.get("ReadonlyRootfs")))
    yield from _differs("privileged", expected.privileged, bool(live.get("Privileged")))
    if live.get("PublishAllPorts"):
        yield Finding("all its ports are published")
    yield from _differs("pid mode", expected.pid_mode, live.get("PidMode") or "")
    yield from _differs("ipc mode", expected.ipc_mode, live.get("IpcMode") or "private")
    yield from _differs("UTS mode", "", live.get("UTSMode") or "")
    yield from _differs("user namespace mode", "", live.get("UsernsMode") or "")
    yield from _differs("kernel settings", dict(expected.sysctls), live.get("Sysctls") or {})
    yield from _differs("resolvers", list(expected.dns), list(live.get("Dns") or []))


def _caps(live: Mapping[str, Any], key: str) -> list[str]:
    return [_cap(name) for name in live.get(key) or []]


def _cap(name: str) -> str:
    return name.upper().removeprefix("CAP_")


def _security_opt(option: str) -> str:
    return (
        "no-new-privileges"
        if option.startswith("no-new-privileges") and not option.endswith("false")
        else option
    )


def _files(expected: Expected, container: Mapping[str, Any]) -> Iterator[Finding]:
    mounts = container.get("Mounts") or []
    live = [
        Mount(
            source=mount.get("Name") or mount.get("Source") or "",
            target=mount["Destination"],
            read_only=not mount["RW"],
        )
        for mount in mounts
        if mount["Type"] != "tmpfs"
    ]
    yield from _sets("mount", map(str, expected.mounts), map(str, live))
    tmpfs = dict(container["HostConfig"].get("Tmpfs") or {})
    tmpfs |= {m["Destination"]: "" for m in mounts if m["Type"] == "tmpfs"}
    yield from _differs("tmpfs", dict(expected.tmpfs), tmpfs)


def _sets(what: str, asked: Iterable[str], live: Iterable[str]) -> Iterator[Finding]:
    asked, live = set(asked), set(live)
    yield from (Finding(f"{what} missing: {_short(name)}") for name in sorted(asked - live))
    yield from (Finding(f"{what} not asked for: {_short(name)}") for name in sorted(live - asked))


def _short(text: str) -> str:
    """A seccomp profile is a security option as well, 10 KB of it."""
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}…"


def _differs(
    what: str, asked: object, live: object, repair: Repair = Repair.NONE
) -> Iterator[Finding]:
    if asked != live:
        yield Finding(f"{what} is {live!r} instead of {asked!r}", repair)
