"""The peers: other forward proxies and DNS filters, each as its packages bring it.

They are unpacked into a folder of their own, so that no service of theirs starts on the host, and
run inside the measured pod's network namespace, on other ports: the packets take the same way.
"""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from abox.pod import ENVOY_CONCURRENCY
from images.debian import unpack
from images.progress import Progress
from tests import host

FOLDER = host.ROOT / ".abox" / "bench"
ROOT = FOLDER / "root"
PACKAGES = ("ca-certificates", "dnsmasq-base", "dnsperf", "squid-openssl", "tinyproxy", "unbound")
MITMPROXY = FOLDER / "mitmproxy"
REQUIREMENTS = host.ROOT / "requirements" / "bench.txt"
FILES = "bench"
"""Folder below the peers' root that holds the files of a run."""
INSTALL_S = 900
ALLOWED = "allowed.test"


def install() -> None:
    """Unpack and install the peers, unless they are there."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    done = FOLDER / "installed"
    wanted = " ".join(PACKAGES) + "\n" + REQUIREMENTS.read_text()
    if done.exists() and done.read_text() == wanted:
        return
    host.run(["rm", "-rf", "--one-file-system", str(ROOT), str(MITMPROXY)], timeout_s=120)
    progress = Progress("peers")
    unpack(ROOT, variant="minbase", packages=PACKAGES, progress=progress, log=FOLDER / "root.log")
    progress.say("installing mitmproxy")
    host.run(["python3", "-m", "venv", str(MITMPROXY)], timeout_s=INSTALL_S)
    pip = [str(MITMPROXY / "bin" / "pip"), "install", "--quiet", "--require-hashes"]
    host.run([*pip, "-r", str(REQUIREMENTS)], timeout_s=INSTALL_S)
    done.write_text(wanted)


@dataclass(frozen=True, kw_only=True)
class Peer:
    """One program that serves at a port of the pod's namespace."""

    name: str
    port: int
    command: tuple[str, ...]
    """Program and arguments; paths are those inside the peers' root, except for mitmproxy's."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Files of the run's folder by name."""
    prepare: tuple[str, ...] = ()
    """A program that runs before, to its end."""
    in_root: bool = True
    protocol: str = "tcp"


@dataclass(frozen=True)
class Place:
    """Where peers run and what they may trust."""

    pid: int
    """A process of the pod's namespace, as the host counts."""
    gateway: str
    """Address that they listen on."""
    origin_ca: str
    """PEM certificate of the origins' authority."""
    ca_pair: tuple[str, str]
    """Certificate and key, PEM, that intercepting peers sign with."""
    resolver: str
    """Upstream resolver."""


def squid(place: Place) -> Peer:
    """Squid as a forward proxy that judges names and caches nothing."""
    return Peer(
        name="Squid",
        port=3128,
        command=("squid", "-N", "-f", f"/{FILES}/squid.conf"),
        files={"squid.conf": _squid_text(place, 3128, "")},
    )


def squid_bump(place: Place) -> Peer:
    """Squid that ends TLS with certificates made on demand."""
    options = (
        f" ssl-bump tls-cert=/{FILES}/bump.pem generate-host-certificates=on"
        " dynamic_cert_mem_cache_size=4MB"
    )
    bump = f"""\
sslcrtd_program /usr/lib/squid/security_file_certgen -s /{FILES}/certificates -M 4MB
ssl_bump bump all
tls_outgoing_options cafile=/{FILES}/origin-ca.pem
"""
    certgen = "/usr/lib/squid/security_file_certgen"
    script = (
        f"rm -rf /{FILES}/certificates; {certgen} -c -s /{FILES}/certificates -M 4MB"
        f" && chown -R proxy:proxy /{FILES}/certificates && chmod 755 /{FILES}"
    )
    return Peer(
        name="Squid",
        port=3129,
        command=("squid", "-N", "-n", "bump", "-f", f"/{FILES}/bump.conf"),
        files={
            "bump.conf": _squid_text(place, 3129, options) + bump,
            "bump.pem": "".join(place.ca_pair),
            "origin-ca.pem": place.origin_ca,
        },
        prepare=("sh", "-c", script),
    )


def _squid_text(place: Place, port: int, options: str) -> str:
    return f"""\
http_port {place.gateway}:{port}{options}
acl allowed dstdomain allowed.test
http_access allow allowed
http_access deny all
cache deny all
access_log none
cache_log /dev/null
cache_store_log none
pid_filename none
visible_hostname bench
netdb_filename none
dns_nameservers 127.0.0.1
shutdown_lifetime 0 seconds
"""


def tinyproxy(place: Place) -> Peer:
    """Tinyproxy with a list of names, everything else denied."""
    text = f"""\
Port 3130
Listen {place.gateway}
Timeout 600
MaxClients 4000
Allow 0.0.0.0/0
Filter "/{FILES}/tinyproxy.filter"
FilterDefaultDeny Yes
FilterType ere
DisableViaHeader Yes
LogLevel Critical
"""
    return Peer(
        name="tinyproxy",
        port=3130,
        command=("tinyproxy", "-d", "-c", f"/{FILES}/tinyproxy.conf"),
        files={"tinyproxy.conf": text, "tinyproxy.filter": "^allowed\\.test$\n"},
    )


def envoy(place: Place) -> Peer:
    """The gateway's own Envoy as a plain forward proxy: a list of names, and nothing else."""
    return Peer(
        name="Envoy",
        port=3132,
        command=(
            f"/{FILES}/envoy", "--config-path", f"/{FILES}/envoy.json", "--log-level", "error",
            "--concurrency", str(ENVOY_CONCURRENCY), "--base-id", "7",
        ),
        files={"envoy.json": json.dumps(_envoy_bootstrap(place))},
    )  # fmt: skip


def copy_envoy(image: str) -> None:
    """Have the binary of an image in the peers' root.

    Args:
        image: id of the gateway's image.
    """
    stamp, binary = FOLDER / "envoy-of", ROOT / FILES / "envoy"
    if binary.exists() and stamp.exists() and stamp.read_text() == image:
        return
    binary.parent.mkdir(exist_ok=True)
    container = host.run(["docker", "create", image]).stdout.strip()
    try:
        inside = f"{container}:/usr/local/bin/envoy"
        host.run(["docker", "cp", "--follow-link", inside, str(binary)], timeout_s=120)
    finally:
        host.run(["docker", "rm", container])
    stamp.write_text(image)


def _envoy_bootstrap(place: Place) -> dict[str, Any]:
    def typed(name: str, kind: str, **fields: object) -> dict[str, Any]:
        config = {"@type": f"type.googleapis.com/envoy.{kind}", **fields}
        return {"name": name, "typed_config": config}

    resolver = typed(
        "envoy.network.dns_resolver.cares",
        "extensions.network.dns_resolver.cares.v3.CaresDnsResolverConfig",
        resolvers=[{"socket_address": {"address": "127.0.0.1", "port_value": 53}}],
    )
    cache = {
        "name": "names", "dns_lookup_family": "V4_ONLY", "typed_dns_resolver_config": resolver
    }  # fmt: skip
    forward = "extensions.filters.http.dynamic_forward_proxy.v3.FilterConfig"
    hosts = [
        {
            "name": "allowed", "domains": [ALLOWED],
            "routes": [{"match": {"prefix": "/"}, "route": {"cluster": "origin"}}],
        },
        {
            "name": "rest", "domains": ["*"],
            "routes": [{"match": {"prefix": "/"}, "direct_response": {"status": 403}}],
        },
    ]  # fmt: skip
    manager = typed(
        "envoy.filters.network.http_connection_manager",
        "extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        stat_prefix="plain",
        codec_type="HTTP1",
        route_config={"name": "routes", "virtual_hosts": hosts},
        http_filters=[
            typed("envoy.filters.http.dynamic_forward_proxy", forward, dns_cache_config=cache),
            typed("envoy.filters.http.router", "extensions.filters.http.router.v3.Router"),
        ],
    )
    address = {"socket_address": {"address": place.gateway, "port_value": 3132}}
    cluster = typed(
        "envoy.clusters.dynamic_forward_proxy",
        "extensions.clusters.dynamic_forward_proxy.v3.ClusterConfig",
        dns_cache_config=cache,
    )
    return {
        "static_resources": {
            "listeners": [
                {"name": "proxy", "address": address, "filter_chains": [{"filters": [manager]}]}
            ],
            "clusters": [
                {"name": "origin", "lb_policy": "CLUSTER_PROVIDED", "cluster_type": cluster}
            ],
        }
    }


def mitmproxy(place: Place) -> Peer:
    """mitmdump, which intercepts whatever it is sent."""
    folder = ROOT / FILES
    return Peer(
        name="mitmproxy",
        port=3131,
        command=(
            str(MITMPROXY / "bin" / "mitmdump"), "--quiet", "--listen-host", place.gateway,
            "--listen-port", "3131", "--set", f"confdir={folder}",
            "--set", f"ssl_verify_upstream_trusted_ca={folder / 'origin-ca.pem'}",
            "--set", "connection_strategy=lazy", "--set", "block_list=/!~d allowed.test/403",
        ),
        files={
            "mitmproxy-ca.pem": "".join(reversed(place.ca_pair)), "origin-ca.pem": place.origin_ca,
        },
        in_root=False,
    )  # fmt: skip


def dnsmasq(place: Place) -> Peer:
    """One allowed name, NXDOMAIN for the rest."""
    return Peer(
        name="dnsmasq",
        port=5301,
        command=(
            "dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--no-resolv", "--no-hosts",
            "--user=root", "--pid-file=", "--cache-size=10000", f"--listen-address={place.gateway}",
            "--bind-interfaces", "--port=5301", "--address=/#/",
            f"--server=/allowed.test/{place.resolver}",
        ),
        protocol="udp",
    )  # fmt: skip


def unbound(place: Place, *, names: Sequence[str] = ("allowed.test",)) -> Peer:
    """A bare Unbound: its own way to say that everything but some names doesn't exist."""
    zones = "".join(f'  local-zone: "{name}." transparent\n' for name in names)
    text = f"""\
server:
  interface: {place.gateway}@5302
  access-control: 0.0.0.0/0 allow
  num-threads: 2
  chroot: ""
  username: ""
  pidfile: ""
  use-syslog: no
  do-not-query-localhost: no
  module-config: "iterator"
  local-zone: "." always_nxdomain
  local-zone: "test." nodefault
{zones}remote-control:
  control-enable: yes
  control-interface: /{FILES}/unbound.sock
forward-zone:
  name: "."
  forward-addr: {place.resolver}
"""
    return Peer(
        name="Unbound",
        port=5302,
        command=("unbound", "-d", "-c", f"/{FILES}/unbound.conf"),
        files={"unbound.conf": text},
        protocol="udp",
    )


def upstream(address: str, names: Mapping[str, str]) -> tuple[str, ...]:
    """Command of the resolver that allowed names are asked at, inside the peers' root."""
    answers = [f"--address=/{name}/{target}" for name, target in names.items()]
    return (
        "dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--no-resolv", "--no-hosts",
        "--user=root", "--pid-file=", f"--listen-address={address}", "--bind-interfaces",
        "--local-ttl=3600", *answers,
    )  # fmt: skip


@contextlib.contextmanager
def running(peer: Peer, place: Place, log: Path) -> Iterator[host.Process[bytes]]:
    """A peer that serves, for the block."""
    folder = ROOT / FILES
    folder.mkdir(exist_ok=True)
    for name, text in peer.files.items():
        (folder / name).write_text(text)
    (ROOT / "etc" / "resolv.conf").write_text("nameserver 127.0.0.1\n")
    if peer.prepare:
        host.run(_inside(place.pid, peer.prepare, in_root=True), timeout_s=60)
    process = host.spawn(_inside(place.pid, peer.command, in_root=peer.in_root), stderr_path=log)
    try:
        host.wait_until(
            lambda: _serves(peer, place.gateway, process),
            timeout_s=30,
            describe=lambda: f"{peer.name}: {log.read_text()[-500:]}",
        )
        yield process
    finally:
        process.terminate()
        host.end(process)


def _inside(pid: int, command: Sequence[str], *, in_root: bool) -> list[str]:
    # Mounts of its own: shared memory for Squid, a name service for mitmproxy; the host has none.
    if in_root:
        memory = ROOT / "dev" / "shm"
        script = f"mkdir -p {memory} && mount -t tmpfs tmpfs {memory}"
        start = ["chroot", str(ROOT)]
    else:
        script = f"mount --bind {ROOT}/etc/resolv.conf /etc/resolv.conf"
        start = []
    enter = ["nsenter", f"--net=/proc/{pid}/ns/net", "--", "unshare", "--mount"]
    return [*enter, "sh", "-c", f'{script} && exec "$@"', "sh", *start, *command]


def _serves(peer: Peer, gateway: str, process: host.Process[bytes]) -> bool:
    if process.poll() is not None:
        raise host.TimeLimitError(f"{peer.name} ended with code {process.returncode}")
    kind = socket.SOCK_STREAM if peer.protocol == "tcp" else socket.SOCK_DGRAM
    with socket.socket(socket.AF_INET, kind) as one:
        one.settimeout(1)
        try:
            one.connect((gateway, peer.port))
            if peer.protocol == "udp":
                one.send(_QUESTION)
                one.recv(512)
        except OSError:
            return False
    return True


_QUESTION = bytes.fromhex("123401000001000000000000") + b"\x07allowed\x04test\x00\x00\x01\x00\x01"
"""A query for the address of allowed.test."""
