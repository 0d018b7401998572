"""Configuration of the pod's two Unbound resolvers.

Both judge names by the same response policy zone. They differ in what a refused address in an
answer means: for the agent it is stripped; for Envoy the whole answer becomes one address that the
proxy refuses, so that an answer of mixed addresses can't lead to the wrong one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from ipaddress import IPv4Address, IPv4Network

from abox.addresses import Network
from abox.allowlist import Mode, Policy
from abox.name_shape import HEALTH_NAME, RESERVED_SUFFIXES
from abox.name_table import NameTable
from abox.render.addresses import refused_networks
from abox.render.paths import DNS_SPOOL, RPZ_FILE, unbound_file, unbound_socket

ZONE = "policy.abox."
"""Name of the response policy zone."""

HEALTH_ADDRESS = "127.0.0.1"
"""What the health name resolves to."""

REFUSED_A = "255.255.255.255"
"""Stands for an answer with a refused address: no setting opens it and no socket reaches it."""
REFUSED_AAAA = "100::1"
"""The same for IPv6: the discard prefix."""

FILTER_SCRIPT = "/opt/abox/lib/gateway/dns_filter.py"
"""Second judge of both resolvers, asked before anything is forwarded."""

NO_UPSTREAM = "127.0.0.1"
"""Upstream of a pod without resolvers: a loopback address, which Unbound doesn't ask."""

RPZ_TTL_S = 5
"""Seconds for which a denial may be cached by the agent."""

_BUILT_IN_ZONES = (
    "127.in-addr.arpa.",
    f"1.{'0.' * 31}ip6.arpa.",
    "home.arpa.",
    "invalid.",
    "localhost.",
    "onion.",
    "test.",
)
"""Zones that Unbound answers by itself; the policy judges them like any other."""

_TRIGGER_LABELS = ("rpz-ip", "rpz-nsip", "rpz-nsdname", "rpz-client-ip")
"""A name that ends in one of these would be read as another kind of rule."""


class UnboundRole(StrEnum):
    """Who asks a resolver."""

    AGENT = "agent"
    PROXY = "proxy"


def name_table(policy: Policy) -> NameTable:
    """The names of a policy."""
    return NameTable(
        allow=frozenset(entry.host for entry in policy.entries),
        deny=frozenset(policy.deny),
        passive=policy.mode is Mode.PASSIVE,
        queries_per_minute=policy.dns_queries_per_minute,
    )


def render_server(role: UnboundRole, gateway: IPv4Address) -> str:
    """The part of a resolver's configuration that a policy change never touches."""
    agent = role is UnboundRole.AGENT
    address = gateway if agent else IPv4Address("127.0.0.1")
    clients = IPv4Network((int(gateway), 24), strict=False) if agent else "127.0.0.1/32"
    zones = "".join(f'  local-zone: "{zone}" nodefault\n' for zone in _BUILT_IN_ZONES)
    log = _REPLY_LOG if agent else _NO_LOG
    return (
        f"server:\n"
        f"  interface: {address}@53\n"
        f"  access-control: 0.0.0.0/0 deny\n"
        f"  access-control: {clients} allow\n"
        f'  module-config: "respip python iterator"\n'
        f"{_SERVER}"
        f"{log}"
        f"  unblock-lan-zones: yes\n"
        f"{zones}"
        f'  include: "{unbound_file(role.value)}"\n'
        f"rpz:\n"
        f'  name: "{ZONE}"\n'
        f'  zonefile: "{RPZ_FILE}"\n'
        f"python:\n"
        f'  python-script: "{FILTER_SCRIPT}"\n'
        f"remote-control:\n"
        f"  control-enable: yes\n"
        f'  control-interface: "{unbound_socket(role.value)}"\n'
        f"  control-use-cert: no\n"
    )


_SERVER = """\
  do-daemonize: no
  username: ""
  chroot: ""
  directory: "/tmp"
  pidfile: ""
  use-syslog: no
  do-ip6: no
  num-threads: 1
  incoming-num-tcp: 0
  outgoing-num-tcp: 16
  outgoing-range: 512
  num-queries-per-thread: 1024
  msg-cache-size: 2m
  rrset-cache-size: 4m
  key-cache-size: 64k
  neg-cache-size: 64k
  infra-cache-numhosts: 100
  infra-host-ttl: 30
  infra-keep-probing: yes
  cache-max-ttl: 3600
  cache-max-negative-ttl: 5
  edns-buffer-size: 1232
  max-udp-size: 1232
  minimal-responses: yes
  deny-any: yes
  qname-minimisation: no
  use-caps-for-id: yes
  hide-identity: yes
  hide-version: yes
  hide-trustanchor: yes
  ede: yes
  do-not-query-localhost: yes
  so-rcvbuf: 1m
  verbosity: 1
"""

_REPLY_LOG = f"""\
  logfile: "{DNS_SPOOL}"
  log-replies: yes
  log-tag-queryreply: yes
"""
"""For control's collector; a full spool loses lines and holds up nobody."""
_NO_LOG = '  logfile: ""\n'


def render_dynamic(role: UnboundRole, cidrs: Sequence[Network], upstream_dns: Sequence[str]) -> str:
    """The part that a change of ``allow_private_cidrs`` or ``upstream_dns`` replaces.

    Args:
        role: whose resolver.
        cidrs: the stack's ``allow_private_cidrs``.
        upstream_dns: IPv4 addresses of the resolvers that are asked; none: nothing is.
    """
    networks = [*refused_networks(4, cidrs), *refused_networks(6, cidrs)]
    render = _strip if role is UnboundRole.AGENT else _replace
    addresses = "".join(f"  forward-addr: {IPv4Address(address)}\n" for address in upstream_dns)
    lines = "".join(line for network in networks for line in render(network))
    forward = addresses or f"  forward-addr: {NO_UPSTREAM}\n"
    return f'{lines}forward-zone:\n  name: "."\n{forward}'


def _strip(network: Network) -> Iterator[str]:
    yield f"  private-address: {network}\n"


def _replace(network: Network) -> Iterator[str]:
    record = f"A {REFUSED_A}" if network.version == 4 else f"AAAA {REFUSED_AAAA}"
    yield f"  response-ip: {network} redirect\n"
    yield f'  response-ip-data: {network} "{record}"\n'


def render_zone(policy: Policy | None) -> str:
    """The response policy zone: a rule for every name of the policy, all above and all below.

    Unbound looks for the longest known parent of a name and then for a wildcard at that parent, so
    every known name and every parent of one has a rule for itself and one for what is below it.

    Args:
        policy: None before the first policy: only the health name is answered.
    """
    table = name_table(policy) if policy else NameTable()
    serial = int(policy.hash[:8], 16) if policy else 1
    rules = {}
    for name in _known_names(table):
        rules[name] = _action(allowed=table.allows(name))
        rules[f"*.{name}"] = _action(allowed=table.allows_below(name))
    rules[HEALTH_NAME] = f"A {HEALTH_ADDRESS}"
    # A label of one zero byte sorts before all others: without it a name that sorts first of all
    # would have no neighbour in the zone, and Unbound would find no rule for it.
    first = _action(allowed=table.passive)
    head = (
        f"$ORIGIN {ZONE}\n$TTL {RPZ_TTL_S}\n"
        f"@ SOA localhost. root.localhost. {serial} 60 60 60 {RPZ_TTL_S}\n@ NS localhost.\n"
        f"* {first}\n\\000 {first}\n*.\\000 {first}\n"
    )
    return head + "".join(f"{name} {action}\n" for name, action in sorted(rules.items()))


def _action(*, allowed: bool) -> str:
    return "CNAME rpz-passthru." if allowed else "CNAME ."


def _known_names(table: NameTable) -> set[str]:
    """Names of entries and all their parents; addresses are no names."""
    names: set[str] = set()
    for host in (*table.allow, *table.deny, *RESERVED_SUFFIXES, HEALTH_NAME):
        name = host.removeprefix("*.")
        if ":" in name or name.rsplit(".", 1)[-1].isdigit():
            continue
        if name.rsplit(".", 1)[-1] in _TRIGGER_LABELS:
            raise ValueError(f"{name}: names below rpz-… are rules of another kind")
        while name and name not in names:
            names.add(name)
            name = name.partition(".")[2]
    return names
