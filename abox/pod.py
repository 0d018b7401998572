"""The gateway pod: what each of its containers is made of.

Pure constants and functions; ``components/gateway.py`` and ``components/proxy.py`` turn them into
containers, integration tests into ``docker run``. The pod is one network namespace, owned by
``pause``, and three containers that joined it, so that each process restarts by itself and none
supervises another. Who may read what follows from the users and the folders' modes in the image:
only ``control`` sees the authority's key and the two control sockets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address

from abox import agent_environment
from abox.render.envoy import render_bootstrap
from abox.render.paths import (
    CA_DIR,
    DNS_SPOOL,
    KEY_LOG_FILE,
    LOG_DIR,
    POLICY_DIR,
    PROXY_SPOOL,
    READY_FILE,
    RUN_DIR,
    SPOOL_DIR,
    TRUST_DIR,
)
from abox.render.unbound import UnboundRole, render_server

AGENT_TRUST_TARGET = agent_environment.TRUST_DIR
"""Where the agent mounts the trust volume, read-only."""

AGENT_HOME = "/home/agent"
"""The agent's home; the gateway image has it too, empty, so that a new volume gets its owner."""
AGENT_WORKSPACE = "/workspace"
"""The agent's workspace; the same holds."""

PAUSE_SYSCTLS: Mapping[str, str] = {
    "net.ipv4.ip_unprivileged_port_start": "0",
    "net.ipv6.conf.all.disable_ipv6": "1",
    "net.ipv6.conf.default.disable_ipv6": "1",
    "net.ipv4.ip_forward": "0",
    "net.ipv4.conf.all.rp_filter": "1",
}
"""The namespace's settings: port 53 without a capability, no IPv6, nothing is routed.

Nobody is answered on another leg than he asked by: a frame with a tag of network 0 gets here
without the host's filter having seen it.
"""

PAUSE_SYSCTLS_IPV6: Mapping[str, str] = {
    "net.ipv4.ip_unprivileged_port_start": "0",
    "net.ipv6.conf.all.forwarding": "0",
    "net.ipv6.conf.default.disable_ipv6": "1",
    "net.ipv4.ip_forward": "0",
    "net.ipv4.conf.all.rp_filter": "1",
}
"""The same with IPv6 on the egress leg, where the engine switches it on by itself.

What is set for all interfaces is set after they are there, so it would take that leg's away.
"""


@dataclass(frozen=True, kw_only=True)
class ImageFolder:
    """A folder that the gateway image must hold, so that a new volume gets its owner and mode."""

    path: str
    owner: int
    group: int
    mode: int


CONTROL_ID, PROXY_ID, DNS_ID = 10001, 10002, 10003
AGENT_ID = 1000
"""User and group of the agent, in its own image and in the folders that its volumes start as."""

IMAGE_FOLDERS: tuple[ImageFolder, ...] = (
    ImageFolder(path=POLICY_DIR, owner=CONTROL_ID, group=CONTROL_ID, mode=0o755),
    ImageFolder(path=CA_DIR, owner=CONTROL_ID, group=CONTROL_ID, mode=0o700),
    ImageFolder(path=TRUST_DIR, owner=CONTROL_ID, group=CONTROL_ID, mode=0o755),
    ImageFolder(path=RUN_DIR, owner=CONTROL_ID, group=CONTROL_ID, mode=0o755),
    ImageFolder(path=f"{RUN_DIR}/control", owner=CONTROL_ID, group=CONTROL_ID, mode=0o700),
    ImageFolder(path=f"{RUN_DIR}/sds", owner=CONTROL_ID, group=PROXY_ID, mode=0o2750),
    ImageFolder(path=f"{RUN_DIR}/envoy", owner=PROXY_ID, group=CONTROL_ID, mode=0o2750),
    ImageFolder(path=f"{RUN_DIR}/dns", owner=DNS_ID, group=CONTROL_ID, mode=0o2750),
    ImageFolder(path=LOG_DIR, owner=CONTROL_ID, group=CONTROL_ID, mode=0o700),
    ImageFolder(path=f"{SPOOL_DIR}/dns", owner=DNS_ID, group=CONTROL_ID, mode=0o2750),
    ImageFolder(path=f"{SPOOL_DIR}/proxy", owner=PROXY_ID, group=CONTROL_ID, mode=0o2750),
    ImageFolder(path=AGENT_HOME, owner=AGENT_ID, group=AGENT_ID, mode=0o755),
    ImageFolder(path=AGENT_WORKSPACE, owner=AGENT_ID, group=AGENT_ID, mode=0o755),
)
"""Set-group-id folders: a socket made in one belongs to the group of the process that uses it."""


def _spool(owner: int, size_mb: int) -> Mapping[str, str]:
    """Options of a volume in memory that a filter writes and control's collector empties."""
    mount = f"size={size_mb}m,uid={owner},gid={CONTROL_ID},mode=2750,noexec,nosuid,nodev"
    return {"type": "tmpfs", "device": "tmpfs", "o": mount}


VOLUMES: Mapping[str, Mapping[str, str]] = {
    "policy": {},
    "run": {},
    "ca": {},
    "trust": {},
    "dns-spool": _spool(DNS_ID, 8),
    "proxy-spool": _spool(PROXY_ID, 16),
}
"""The pod's volumes and what their driver is told; ``trust`` is also the agent's trust store.

The spools are bounded in memory and hold up nobody: a filter whose spool is full loses lines.
"""

LOG_FOLDER = "logs"
"""Source of the mount that isn't a volume but a folder of the host, kept for the sandbox."""


@dataclass(frozen=True, kw_only=True)
class VolumeMount:
    """What a container sees of one of ``VOLUMES``, or of ``LOG_FOLDER``."""

    volume: str
    target: str
    read_only: bool = False


@dataclass(frozen=True, kw_only=True)
class PodContainer:
    """One container of the pod; whatever isn't here is the same for all of them.

    All run from the gateway image with a read-only root, all capabilities dropped,
    no-new-privileges and no health check; restart policy ``unless-stopped``.
    """

    role: str
    command: tuple[str, ...]
    user: str
    memory_mb: int
    pids_limit: int
    env: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[VolumeMount, ...] = ()
    tmpfs: Mapping[str, str] = field(default_factory=dict)
    """Target to mount options."""
    sysctls: Mapping[str, str] = field(default_factory=dict)
    """Only ``pause`` has any: the namespace is its own."""
    stop_timeout_s: int = 2


TINI = "/usr/bin/tini"

_WAIT = "until [ -s {ready} ]; do sleep 0.1; done\n"
"""The first policy's files are written in one go; this one comes last."""

_SPOOL = "(umask 007; : >> {spool})\n"
"""Control's collector must be able to give back what it read."""

_DNS_SCRIPT = """\
printf %s "$ABOX_UNBOUND_AGENT" > /tmp/agent.conf
printf %s "$ABOX_UNBOUND_PROXY" > /tmp/proxy.conf
export PYTHONPATH=/opt/abox/lib:/usr/lib/python3/dist-packages PYTHONDONTWRITEBYTECODE=1
unbound -d -c /tmp/agent.conf &
unbound -d -c /tmp/proxy.conf &
wait -n
exit 1
"""

_PROXY_SCRIPT = """\
ln -sfT /dev/null {key_log}
exec envoy --config-yaml "$ABOX_ENVOY_BOOTSTRAP" --concurrency {concurrency} \
--log-level warning --component-log-level misc:error \
--file-flush-interval-msec {flush_ms} --drain-time-s 0 \
--use-dynamic-base-id --disable-hot-restart
"""

ENVOY_CONCURRENCY = 2
"""Worker threads of Envoy: each costs a few megabytes."""
DNS_MEMORY_MB, CONTROL_MEMORY_MB = 448, 384
"""What a list of 100,000 names needs (measured: 316 and 295 MB at the peak of a change); a usual
sandbox uses a tenth of it."""

ENVOY_FLUSH_MS = 500
"""Milliseconds after which Envoy writes what its logs have gathered."""


def pause_container(*, ipv6: bool = False) -> PodContainer:
    """The owner of the namespace: it does nothing and so has no reason to end.

    It mounts the sockets' folders, which its user can't use, because it is made before the others:
    a new volume gets the image's folders from the container that is made first, and the engine
    fails when several are made at once and all find the volume empty.

    Args:
        ipv6: whether the egress leg has IPv6; the other one never has.
    """
    return PodContainer(
        role="pause",
        command=(TINI, "--", "sleep", "infinity"),
        user="65534:65534",
        memory_mb=16,
        pids_limit=8,
        mounts=(VolumeMount(volume="run", target=RUN_DIR, read_only=True),),
        sysctls=PAUSE_SYSCTLS_IPV6 if ipv6 else PAUSE_SYSCTLS,
    )


def dns_container(gateway: str) -> PodContainer:
    """Two Unbound processes: one that agents ask, one that Envoy asks.

    They differ in what a private address in an answer means: the first strips it, the second
    passes it on so that the proxy can judge it and say so. If either ends, the container does.

    Args:
        gateway: address of the pod on the host-only bridge.
    """
    address = IPv4Address(gateway)
    script = _WAIT.format(ready=READY_FILE) + _SPOOL.format(spool=DNS_SPOOL) + _DNS_SCRIPT
    return PodContainer(
        role="dns",
        command=(TINI, "-g", "--", "bash", "-c", script),
        user=f"{DNS_ID}:{DNS_ID}",
        env={
            "ABOX_UNBOUND_AGENT": render_server(UnboundRole.AGENT, address),
            "ABOX_UNBOUND_PROXY": render_server(UnboundRole.PROXY, address),
        },
        mounts=(
            VolumeMount(volume="policy", target=POLICY_DIR, read_only=True),
            VolumeMount(volume="run", target=RUN_DIR),
            VolumeMount(volume="dns-spool", target=f"{SPOOL_DIR}/dns"),
        ),
        tmpfs={"/tmp": "rw,noexec,nosuid,nodev,size=1m,mode=1777"},  # noqa: S108  # a mount
        memory_mb=DNS_MEMORY_MB,
        pids_limit=32,
    )


def proxy_container(gateway: str, proxy_port: int, sandbox: str) -> PodContainer:
    """Envoy: forward proxy with TLS interception.

    Args:
        gateway: address of the pod on the host-only bridge.
        proxy_port: TCP port of the forward proxy, 1 to 65535.
        sandbox: name for the refusals.
    """
    bootstrap = render_bootstrap(
        gateway=IPv4Address(gateway), proxy_port=proxy_port, sandbox=sandbox
    )
    script = _WAIT.format(ready=READY_FILE) + _SPOOL.format(spool=PROXY_SPOOL)
    script += _PROXY_SCRIPT.format(
        concurrency=ENVOY_CONCURRENCY, flush_ms=ENVOY_FLUSH_MS, key_log=KEY_LOG_FILE
    )
    return PodContainer(
        role="proxy",
        command=(TINI, "-g", "--", "bash", "-c", script),
        user=f"{PROXY_ID}:{PROXY_ID}",
        env={"ABOX_ENVOY_BOOTSTRAP": bootstrap},
        mounts=(
            VolumeMount(volume="policy", target=POLICY_DIR, read_only=True),
            VolumeMount(volume="run", target=RUN_DIR),
            VolumeMount(volume="proxy-spool", target=f"{SPOOL_DIR}/proxy"),
        ),
        tmpfs={"/tmp": "rw,noexec,nosuid,nodev,size=1m,mode=1777"},  # noqa: S108  # a mount
        memory_mb=512,
        pids_limit=64,
    )


def control_container(gateway: str, proxy_port: int, sandbox: str) -> PodContainer:
    """The control program: certificate authority, policy reload, status, verdict log.

    Args:
        gateway: address of the pod on the host-only bridge, where it probes dns and proxy.
        proxy_port: TCP port of the forward proxy.
        sandbox: name that every line of the verdict log carries.
    """
    return PodContainer(
        role="control",
        command=(TINI, "-g", "--", "abox-gateway", "serve"),
        user=f"{CONTROL_ID}:{CONTROL_ID}",
        env={
            "ABOX_GATEWAY": str(IPv4Address(gateway)),
            "ABOX_PROXY_PORT": str(proxy_port),
            "ABOX_SANDBOX": sandbox,
        },
        mounts=(
            VolumeMount(volume="policy", target=POLICY_DIR),
            VolumeMount(volume="run", target=RUN_DIR),
            VolumeMount(volume="ca", target=CA_DIR),
            VolumeMount(volume="trust", target=TRUST_DIR),
            VolumeMount(volume="dns-spool", target=f"{SPOOL_DIR}/dns"),
            VolumeMount(volume="proxy-spool", target=f"{SPOOL_DIR}/proxy"),
            VolumeMount(volume=LOG_FOLDER, target=LOG_DIR),
        ),
        tmpfs={"/tmp": "rw,noexec,nosuid,nodev,size=8m,mode=1777"},  # noqa: S108  # a mount
        memory_mb=CONTROL_MEMORY_MB,
        pids_limit=64,
    )
