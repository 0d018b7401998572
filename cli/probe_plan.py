"""Which attempts `abox check` makes from inside a sandbox, and what each may lead to.

Pure: facts about the sandbox in, a list of probes out, and a judgement of the answers. An answer
is only good if it is one of those that a probe names; a missing or unknown one is bad.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

HEALTH = "healthcheck.abox.local"
"""Answered by the gateway itself, whatever the policy says."""

ENGINE_RESOLVERS = ("127.0.0.11",)
"""Where the container engine answers names inside a container."""

DOCUMENTATION = ("192.0.2.10", "198.51.100.10", "203.0.113.10")
"""Stand for "the internet" in direct attempts: nobody is there (RFC 5737)."""

DENIED_CANDIDATES = ("example.com", "example.net", "example.org", "iana.org")
"""Names that exist outside, so that NXDOMAIN can only come from the filter."""

LOCAL_NAMES = ("localhost", "host.docker.internal", "metadata.google.internal", "docker")
"""Usual aliases of the host, of loopback and of the metadata service."""

GATEWAY_EXTRA_PORTS = (
    1080, 2375, 2376, 2377, 3000, 3128, 4194, 5000, 5353, 5355, 6060, 6443, 8000, 8001, 8002, 8008,
    8053, 8080, 8081, 8082, 8125, 8443, 8888, 8953, 9000, 9090, 9091, 9100, 9901, 9902, 10000,
    10001, 10250, 15000, 15001, 15006, 15020, 15021, 18000, 19000, 19001, 50051,
)  # fmt: skip
"""Ports above 1024 where proxies, resolvers, engines and their administration usually listen."""

USUAL_PORTS = (21, 22, 23, 25, 53, 80, 111, 139, 443, 445, 2049, 2375, 2376, 3306, 5000, 5432,
               6379, 6443, 8000, 8080, 8443, 9090, 10250, 16509, 27017)  # fmt: skip
"""Ports tried at the host and at neighbours, besides those that are known to be open there."""

UDP_PORTS = (67, 69, 123, 137, 161, 500, 514, 1900, 4500, 4789, 5353, 5355, 33434)
"""Datagram services tried at the gateway, besides DNS."""

DETAIL_MAX = 60
"""Characters of an answer's detail that are shown."""

CLOSED = frozenset({"refused", "unreachable", "prohibited", "dropped", "closed"})
"""Outcomes of a connection that went nowhere."""

SILENT = CLOSED | {"silent"}
"""Outcomes of a datagram that brought nothing back."""

NO_SOCKET = SILENT | {"no-socket", "unsupported"}
"""As above, where the kernel may not even offer the socket."""

REFUSED_SYSCALL = frozenset({"EPERM", "EACCES", "ENOSYS", "unsupported"})

Group = Literal["works", "names", "proxy", "network", "container"]

State = Literal["ok", "open", "unproven", "fails"]
"""Of a row: as it should be; something passes that must not; nothing passed, but not for the
reason that was wanted; something doesn't work that must."""

Attempt = tuple[str, dict[str, Any]]
"""Kind (a function of cli/probes.py) and its arguments."""


@dataclass(frozen=True, kw_only=True)
class Probe:
    """One row of the check: attempts of one kind, and the outcomes that are good."""

    id: str
    group: Group
    what: str
    expectation: str
    attempts: Mapping[str, Attempt]
    """Label (named where the attempt went wrong) to attempt."""
    accepts: frozenset[str]
    """Good outcomes: whole, or their first word."""
    within_s: float | None = None
    """Seconds within which every attempt must be answered."""


@dataclass(frozen=True)
class Answer:
    """What came of one attempt."""

    outcome: str
    detail: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Row:
    """A judged probe, as the table and `--json` show it."""

    id: str
    group: Group
    what: str
    expectation: str
    result: str
    state: State

    @property
    def ok(self) -> bool:
        """Whether it is as it should be."""
        return self.state == "ok"


@dataclass(frozen=True)
class Neighbour:
    """A container of another sandbox on this host."""

    sandbox: str
    role: str
    address: str


@dataclass(frozen=True)
class AllowedRequest:
    """A request that the policy allows, made to see that allowed things work."""

    host: str
    port: int
    method: str
    path: str


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """Facts that the probes are made from."""

    gateway: str
    proxy_port: int
    bridge_host: str
    """The host's address on the sandbox's bridge."""
    host_addresses: tuple[str, ...] = ()
    """Other addresses of the host."""
    host_ports: tuple[int, ...] = ()
    """TCP ports on which something of the host listens."""
    listener_port: int | None = None
    """A listener that the check itself has opened on `bridge_host`, TCP and UDP."""
    neighbours: tuple[Neighbour, ...] = ()
    denied: tuple[str, ...] = ()
    """Names that the policy denies (none in passive mode)."""
    look_alikes: tuple[str, ...] = ()
    """Denied names that resemble an allowed one."""
    allowed: AllowedRequest | None = None
    denied_port: tuple[str, int] | None = None
    """An allowed name with a port that isn't."""
    private: tuple[str, ...] = ("127.0.0.1", "169.254.169.254", "10.0.0.5", "192.168.0.1")
    """Special-purpose addresses that the policy doesn't allow."""
    interception: bool = True
    proxy_variables: tuple[str, ...] = ()
    trust_variables: tuple[str, ...] = ()
    address_reasons: frozenset[str] = frozenset()
    """Reason codes of a refusal that is about an address, not about the name."""
    own_resolvers: tuple[str, ...] = ENGINE_RESOLVERS
    """Resolvers inside the agent, which ask the gateway for it; a VM has none."""
    fresh_label: str = "probe"
    """Random label for names that nobody has asked for before."""


def spellings(address: str) -> tuple[str, ...]:
    """Ways to write an IPv4 address in a URL that some reader takes for that address."""
    parts = [int(part) for part in address.split(".")]
    number = int.from_bytes(bytes(parts), "big")
    high, low = number >> 16, number & 0xFFFF
    dotted_hex = ".".join(f"0x{part:02x}" for part in parts)
    dotted_octal = ".".join(f"0{part:o}" for part in parts)
    found = (
        address,
        f"{address}.",
        str(number),
        f"0x{number:08x}",
        f"0{number:o}",
        dotted_hex,
        dotted_octal,
        f"{parts[0]}.{number & 0xFFFFFF}",
        f"{parts[0]}.{parts[1]}.{low}",
        ".".join(f"{part:03d}" for part in parts),
        address.replace(".", "%2e"),
        f"[::ffff:{address}]",
        f"[::ffff:{high:x}:{low:x}]",
        f"[::{high:x}:{low:x}]",
        f"[64:ff9b::{high:x}:{low:x}]",
        f"[2002:{high:x}:{low:x}::1]",
        f"[{address}]",
    )
    return tuple(dict.fromkeys(found))


def plan_probes(around: Surroundings) -> list[Probe]:
    """Every probe for a sandbox, positive controls first."""
    return [
        *_controls(around),
        *_allowed(around),
        *_names(around),
        *_proxy(around),
        *_gateway(around),
        *_host(around),
        *_neighbours(around),
        *_internet(around),
        *_ipv6(),
        *_container(),
    ]


def to_script(probes: Iterable[Probe]) -> dict[str, dict[str, list[Any]]]:
    """The plan in the form that `cli/probes.py` takes."""
    return {
        probe.id: {label: list(attempt) for label, attempt in probe.attempts.items()}
        for probe in probes
    }


def judge(probe: Probe, answers: Mapping[str, Answer]) -> Row:
    """Compare the answers of one probe with what it expects."""
    bad = {
        label: answers.get(label) for label in probe.attempts if not _good(probe, answers, label)
    }
    if not bad:
        result = _summary(answers, probe)
    else:
        named = [f"{label}: {_shown(answer)}" for label, answer in list(bad.items())[:4]]
        more = f" and {len(bad) - 4} more" if len(bad) > 4 else ""
        result = "; ".join(named) + more
    return Row(
        id=probe.id,
        group=probe.group,
        what=probe.what,
        expectation=probe.expectation,
        result=result,
        state=_state(probe, list(bad.values())),
    )


def _state(probe: Probe, bad: list[Answer | None]) -> State:
    """What the bad answers of a probe mean."""
    if not bad:
        return "ok"
    if probe.group == "works":
        return "fails"
    passed = any(
        answer is not None
        and answer.outcome.split()[:1] != ["broken"]
        and answer.outcome not in SILENT
        for answer in bad
    )
    return "open" if passed else "unproven"


def _good(probe: Probe, answers: Mapping[str, Answer], label: str) -> bool:
    """Whether one attempt ended as it should."""
    answer = answers.get(label)
    if answer is None:
        return False
    if probe.within_s is not None and answer.seconds > probe.within_s:
        return False
    words = answer.outcome.split()
    return answer.outcome in probe.accepts or (bool(words) and words[0] in probe.accepts)


def _shown(answer: Answer | None) -> str:
    """One answer in words."""
    if answer is None:
        return "no answer from the probe"
    said = answer.detail if len(answer.detail) <= DETAIL_MAX else answer.detail[:DETAIL_MAX] + "…"
    detail = f" ({said})" if said else ""
    slow = f" after {answer.seconds:.1f} s" if answer.seconds >= 1 else ""
    return f"{answer.outcome}{detail}{slow}"


def _summary(answers: Mapping[str, Answer], probe: Probe) -> str:
    """All answers of a good probe in a few words."""
    if len(probe.attempts) == 1:
        return _shown(next(iter(answers.values())))
    counts = Counter(answers[label].outcome for label in probe.attempts)
    return ", ".join(f"{outcome} x{number}" for outcome, number in counts.most_common(4))


# --- what must work ------------------------------------------------------------------------------


def _controls(around: Surroundings) -> list[Probe]:
    """Without these a refusal would prove nothing."""
    proxy = [around.gateway, around.proxy_port]
    inside = _inner("GET", HEALTH, "/")
    return [
        Probe(
            id="health-dns",
            group="works",
            what=f"DNS: {HEALTH} at the gateway and at the agent's own resolver",
            expectation="127.0.0.1",
            attempts={
                server: ("dns", {"server": server, "name": HEALTH})
                for server in (around.gateway, *around.own_resolvers)
            },
            accepts=frozenset({"NOERROR 127.0.0.1"}),
        ),
        Probe(
            id="health-http",
            group="works",
            what=f"proxy: http://{HEALTH}/",
            expectation="200",
            attempts={"plain": ("http", {"proxy": proxy, "request": _absolute("GET", HEALTH)})},
            accepts=frozenset({"200"}),
        ),
        Probe(
            id="health-https",
            group="works",
            what=f"proxy: https://{HEALTH}/ through CONNECT, certificate trusted by the system",
            expectation="200",
            attempts={
                "connect": (
                    "tunnel",
                    {
                        "proxy": proxy,
                        "authority": f"{HEALTH}:443",
                        "sni": HEALTH,
                        "request": inside,
                    },
                )
            },
            accepts=frozenset({"200"}),
        ),
        Probe(
            id="environment",
            group="works",
            what="proxy and certificate variables",
            expectation="set",
            attempts={
                "proxy": ("variables", {"names": list(around.proxy_variables)}),
                "certificates": ("variables", {"names": list(around.trust_variables)}),
            },
            accepts=frozenset({"set"}),
        ),
        Probe(
            id="echo-gateway",
            group="works",
            what="ICMP echo to the gateway",
            expectation="answered (for diagnosis)",
            attempts={"echo": ("icmp", {"host": around.gateway})},
            accepts=frozenset({"answered", "no-socket"}),
        ),
    ]


def _allowed(around: Surroundings) -> list[Probe]:
    """An allowed name passes; that its server can be reached is not required."""
    if around.allowed is None:
        return []
    one = around.allowed
    proxy = [around.gateway, around.proxy_port]
    if one.port == 80:
        request = _absolute(one.method, one.host, one.path)
        attempt: Attempt = ("http", {"proxy": proxy, "request": request})
    else:
        attempt = (
            "tunnel",
            {
                "proxy": proxy,
                "authority": f"{one.host}:{one.port}",
                "sni": one.host,
                "request": _inner(one.method, one.host, one.path),
                "verify": around.interception,
            },
        )
    statuses = {str(code) for code in range(200, 600)} - {"400", "407"}
    by_address = {f"denied {reason}" for reason in around.address_reasons}
    return [
        Probe(
            id="allowed-name",
            group="works",
            what=f"proxy: {one.method} {one.host}:{one.port}{one.path}, which the policy allows",
            expectation="let through (its server may be out of reach)",
            attempts={"request": attempt},
            accepts=frozenset(statuses | by_address),
        )
    ]


# --- names that aren't allowed -------------------------------------------------------------------


def _names(around: Surroundings) -> list[Probe]:
    """Denied names by DNS, by every way of asking."""
    if not around.denied:
        return []
    name = around.denied[0]
    fresh = f"{around.fresh_label}.{name}"
    resolvers = (around.gateway, *around.own_resolvers)
    kinds = {"A": 1, "NS": 2, "CNAME": 5, "MX": 15, "TXT": 16, "AAAA": 28, "HTTPS": 65}
    nx = frozenset({"NXDOMAIN"})
    asked = [*around.denied, *around.look_alikes, fresh, f"below.{HEALTH}"]
    return [
        Probe(
            id="denied-dns",
            group="names",
            what="DNS: names outside the allowlist, look-alikes, names never asked before",
            expectation="NXDOMAIN at once",
            attempts={
                f"{one} at {server}": ("dns", {"server": server, "name": one})
                for one in asked
                for server in resolvers
            },
            accepts=nx,
            within_s=2.0,
        ),
        Probe(
            id="denied-dns-types",
            group="names",
            what=f"DNS: {name}, other record types",
            expectation="NXDOMAIN",
            attempts={
                label: ("dns", {"server": around.gateway, "name": fresh, "kind": number})
                for label, number in kinds.items()
            },
            accepts=nx,
        ),
        Probe(
            id="denied-dns-tcp",
            group="names",
            what=f"DNS over TCP: {name}",
            expectation="refused at the gateway, no address from the container's resolver",
            attempts={
                server: ("dns", {"server": server, "name": fresh, "stream": True})
                for server in resolvers
            },
            accepts=SILENT | {"NXDOMAIN", "SERVFAIL", "REFUSED"},
        ),
        Probe(
            id="denied-lookup",
            group="names",
            what="look-up as programs do it: denied names and aliases of the host",
            expectation="not found",
            attempts={
                one: ("resolve", {"name": one})
                for one in (name, *(alias for alias in LOCAL_NAMES if alias != "localhost"))
            },
            accepts=frozenset({"unresolved"}),
        ),
        Probe(
            id="denied-http",
            group="names",
            what="proxy: http:// to names outside the allowlist",
            expectation="403 with a reason",
            attempts={
                one: (
                    "http",
                    {
                        "proxy": [around.gateway, around.proxy_port],
                        "request": _absolute("GET", one),
                    },
                )
                for one in asked
            },
            accepts=frozenset({"denied"}),
        ),
        Probe(
            id="denied-connect",
            group="names",
            what="proxy: CONNECT to names outside the allowlist",
            expectation="403 with a reason",
            attempts={one: _connect(around, f"{one}:443") for one in asked},
            accepts=frozenset({"denied"}),
        ),
    ]


# --- proxy ---------------------------------------------------------------------------------------


def _proxy(around: Surroundings) -> list[Probe]:
    """Ways round the proxy's judgement: literals, private addresses, fronting, odd requests."""
    proxy = [around.gateway, around.proxy_port]
    refused = frozenset({"denied", "400", "closed"})
    targets = [*around.private[:1], around.gateway, around.bridge_host, *around.private[1:]]
    targets += [one.address for one in around.neighbours]
    probes = [
        Probe(
            id=f"literal-{kind}",
            group="proxy",
            what=f"proxy: {shown} to loopback, metadata, host and private addresses, "
            "every spelling",
            expectation="403 or 400",
            attempts={
                text: make(text)
                for number, target in enumerate(targets)
                for text in (spellings(target) if number < 5 else (target,))
            },
            accepts=refused,
        )
        for kind, shown, make in (
            (
                "http",
                "http://",
                lambda text: ("http", {"proxy": proxy, "request": _absolute("GET", text)}),
            ),
            ("connect", "CONNECT", lambda text: _connect(around, f"{text}:443")),
        )
    ]
    public = {text: _connect(around, f"{text}:443") for text in DOCUMENTATION}
    own = (around.proxy_port, 53, 9901, 8953)
    ports = {f"port {port}": _connect(around, f"127.0.0.1:{port}") for port in own}
    itself = {f"itself {port}": _connect(around, f"{around.gateway}:{port}") for port in own}
    probes += [
        Probe(
            id="literal-outside",
            group="proxy",
            what="proxy: CONNECT to bare addresses outside, and to the proxy's own ports",
            expectation="403 or 400",
            attempts=public | ports | itself,
            accepts=refused,
        ),
        Probe(
            id="local-alias",
            group="proxy",
            what="proxy: aliases of loopback and of the host",
            expectation="403, 400 or no such host",
            attempts={
                name: ("http", {"proxy": proxy, "request": _absolute("GET", name)})
                for name in LOCAL_NAMES
            },
            accepts=refused | ({"502", "503"} if not around.denied else frozenset()),
        ),
        _fronting(around),
        _odd_requests(around),
    ]
    if around.denied_port is not None:
        name, port = around.denied_port
        probes.append(
            Probe(
                id="denied-port",
                group="proxy",
                what=f"proxy: CONNECT to a port that isn't allowed for its name ({name}:{port})",
                expectation="403 with a reason",
                attempts={"connect": _connect(around, f"{name}:{port}")},
                accepts=frozenset({"denied"}),
            )
        )
    return probes


def _fronting(around: Surroundings) -> Probe:
    """Another name inside the tunnel than the one that was asked for."""
    proxy = [around.gateway, around.proxy_port]
    other = around.denied[0] if around.denied else "example.com"
    names = [other] + ([around.allowed.host] if around.allowed else [])

    def front(sni: str, host: str) -> Attempt:
        return (
            "tunnel",
            {
                "proxy": proxy,
                "authority": f"{HEALTH}:443",
                "sni": sni,
                "request": _inner("GET", host, "/"),
                "verify": False,
            },
        )

    attempts = {f"Host {name}": front(HEALTH, name) for name in names}
    attempts |= {f"SNI {name}": front(name, HEALTH) for name in names}
    attempts["address as Host"] = front(HEALTH, around.private[0])
    return Probe(
        id="fronting",
        group="proxy",
        what=f"proxy: CONNECT {HEALTH}, another name as Host or SNI inside",
        expectation="refused",
        attempts=attempts,
        accepts=frozenset({"denied", "400", "421", "closed"}),
    )


def _odd_requests(around: Surroundings) -> Probe:
    """Requests that two readers may understand in two ways."""
    proxy = [around.gateway, around.proxy_port]
    other = around.denied[0] if around.denied else "127.0.0.1"
    lines = {
        "origin-form": f"GET / HTTP/1.1\r\nHost: {other}\r\n",
        "no host": "GET / HTTP/1.0\r\n",
        "user info": f"GET http://{HEALTH}@{other}/ HTTP/1.1\r\nHost: {HEALTH}\r\n",
        "Host differs": f"GET http://{other}/ HTTP/1.1\r\nHost: {HEALTH}\r\n",
        "two Hosts": f"GET http://{other}/ HTTP/1.1\r\nHost: {HEALTH}\r\nHost: {other}\r\n",
        "NUL in name": f"GET http://{other}\0.{HEALTH}/ HTTP/1.1\r\nHost: {HEALTH}\r\n",
        "other scheme": f"GET ftp://{other}/ HTTP/1.1\r\nHost: {other}\r\n",
        "CONNECT without port": f"CONNECT {other} HTTP/1.1\r\nHost: {other}\r\n",
        "CONNECT to port 0": f"CONNECT {HEALTH}:0 HTTP/1.1\r\nHost: {HEALTH}:0\r\n",
    }
    end = "Connection: close\r\n\r\n"
    return Probe(
        id="odd-requests",
        group="proxy",
        what="proxy: requests that readers understand differently",
        expectation="refused",
        attempts={
            label: ("http", {"proxy": proxy, "request": line + end})
            for label, line in lines.items()
        },
        accepts=frozenset({"denied", "400", "404", "426", "closed"}),
    )


# --- network -------------------------------------------------------------------------------------


def _gateway(around: Surroundings) -> list[Probe]:
    """Everything at the gateway besides DNS, proxy and echo."""
    ports = sorted({*range(1, 1025), *GATEWAY_EXTRA_PORTS} - {around.proxy_port})
    return [
        Probe(
            id="gateway-ports",
            group="network",
            what=f"gateway: {len(ports)} other TCP ports, tcp/53 and administration among them",
            expectation="closed",
            attempts={around.gateway: ("tcp_scan", {"host": around.gateway, "ports": ports})},
            accepts=frozenset({"closed"}),
        ),
        Probe(
            id="gateway-udp",
            group="network",
            what="gateway: UDP besides DNS",
            expectation="no answer",
            attempts={
                f"udp/{port}": ("udp", {"host": around.gateway, "port": port})
                for port in (*UDP_PORTS, around.proxy_port)
            },
            accepts=SILENT,
        ),
        Probe(
            id="gateway-protocols",
            group="network",
            what="gateway: SCTP, UDP-Lite, DCCP",
            expectation="no answer",
            attempts={
                "SCTP": ("sctp", {"host": around.gateway, "port": around.proxy_port}),
                "UDP-Lite": ("udp", {"host": around.gateway, "port": 53, "protocol": 136}),
                "DCCP": ("open_socket", {"family": 2, "kind": 6, "protocol": 33}),
            },
            accepts=NO_SOCKET | {"EPROTOTYPE", "EINVAL"},
        ),
        Probe(
            id="source-route",
            group="network",
            what="gateway as a router (loose source route to an address outside)",
            expectation="no connection",
            attempts={
                f"port {port}": (
                    "source_route",
                    {"via": around.gateway, "to": DOCUMENTATION[1], "port": port},
                )
                for port in (80, around.proxy_port)
            },
            accepts=CLOSED,
        ),
    ]


def _host(around: Surroundings) -> list[Probe]:
    """Addresses of the host, with the ports where something really listens."""
    ports = sorted({*USUAL_PORTS, *around.host_ports})
    addresses = (around.bridge_host, *around.host_addresses)
    probes = [
        Probe(
            id="host-ports",
            group="network",
            what=f"host: {len(addresses)} addresses, {len(ports)} TCP ports each, its own "
            "services among them",
            expectation="closed",
            attempts={one: ("tcp_scan", {"host": one, "ports": ports}) for one in addresses},
            accepts=frozenset({"closed"}),
        ),
        Probe(
            id="host-dns",
            group="network",
            what="host: DNS by UDP",
            expectation="no answer",
            attempts={one: ("dns", {"server": one, "name": HEALTH}) for one in addresses},
            accepts=SILENT,
        ),
        Probe(
            id="host-echo",
            group="network",
            what="host: ICMP echo",
            expectation="no answer",
            attempts={one: ("icmp", {"host": one}) for one in addresses},
            accepts=NO_SOCKET,
        ),
    ]
    if around.listener_port is not None:
        target = {"host": around.bridge_host, "port": around.listener_port}
        probes.append(
            Probe(
                id="host-listener",
                group="network",
                what="host: a listener that this check has opened on the bridge",
                expectation="no connection",
                attempts={"tcp": ("tcp", target), "udp": ("udp", target)},
                accepts=SILENT,
            )
        )
    return probes


def _neighbours(around: Surroundings) -> list[Probe]:
    """Other sandboxes of this host."""
    if not around.neighbours:
        return []
    ports = sorted({*USUAL_PORTS, around.proxy_port})
    named = {f"{one.sandbox} {one.role} {one.address}": one.address for one in around.neighbours}
    return [
        Probe(
            id="other-sandboxes",
            group="network",
            what=f"other sandboxes: {len(named)} addresses, TCP",
            expectation="closed",
            attempts={
                label: ("tcp_scan", {"host": address, "ports": ports})
                for label, address in named.items()
            },
            accepts=frozenset({"closed"}),
        ),
        Probe(
            id="other-sandboxes-udp",
            group="network",
            what="other sandboxes: DNS and ICMP echo",
            expectation="no answer",
            attempts={
                f"{label} {kind}": (kind, arguments)
                for label, address in named.items()
                for kind, arguments in (
                    ("dns", {"server": address, "name": HEALTH}),
                    ("icmp", {"host": address}),
                )
            },
            accepts=NO_SOCKET,
        ),
    ]


def _internet(around: Surroundings) -> list[Probe]:
    """Straight out, past the gateway; documentation addresses stand for the internet."""
    name = around.denied[0] if around.denied else HEALTH
    return [
        Probe(
            id="direct-tcp",
            group="network",
            what="internet: TCP straight to an address, ports 22, 80, 443, 853, 5432",
            expectation="refused, and at once (no tool hangs)",
            attempts={
                f"{address}:{port}": ("tcp", {"host": address, "port": port})
                for address in DOCUMENTATION
                for port in (22, 80, 443, 853, 5432)
            },
            accepts=CLOSED - {"dropped"},
            within_s=2.0,
        ),
        Probe(
            id="direct-udp",
            group="network",
            what="internet: UDP (53, 67, 123, 443, 4500)",
            expectation="no answer",
            attempts={
                f"{address}:{port}": ("udp", {"host": address, "port": port})
                for address in DOCUMENTATION
                for port in (67, 123, 443, 4500)
            }
            | {
                f"DNS at {address}": ("dns", {"server": address, "name": name})
                for address in (*DOCUMENTATION, "198.51.100.53")
            },
            accepts=SILENT,
        ),
        Probe(
            id="direct-echo",
            group="network",
            what="internet: ICMP echo",
            expectation="no answer",
            attempts={one: ("icmp", {"host": one}) for one in DOCUMENTATION},
            accepts=NO_SOCKET,
        ),
    ]


def _ipv6() -> list[Probe]:
    """IPv6 is off; nothing answers on the link or beyond."""
    documentation = "2001:db8::10"
    return [
        Probe(
            id="ipv6-addresses",
            group="network",
            what="IPv6 addresses of the sandbox",
            expectation="none",
            attempts={"addresses": ("ipv6_addresses", {})},
            accepts=frozenset({"none"}),
        ),
        Probe(
            id="ipv6",
            group="network",
            what="IPv6: link-local neighbours and a global address",
            expectation="no answer",
            attempts={
                "all nodes on the link": ("ipv6_neighbour", {}),
                f"[{documentation}]:443": ("tcp", {"host": documentation, "port": 443}),
                f"UDP [{documentation}]:53": ("udp", {"host": documentation, "port": 53}),
                f"echo {documentation}": ("icmp", {"host": documentation}),
            },
            accepts=NO_SOCKET | {"sent"},
        ),
    ]


# --- container -----------------------------------------------------------------------------------


def _container() -> list[Probe]:
    """What the container itself must not have or be able to do."""
    no_capability = frozenset({"0000000000000000"})
    return [
        Probe(
            id="capabilities",
            group="container",
            what="capabilities: effective, permitted, inheritable, bounding, ambient",
            expectation="none",
            attempts={
                field_name: ("process_status", {"field": field_name})
                for field_name in ("CapEff", "CapPrm", "CapInh", "CapBnd", "CapAmb")
            },
            accepts=no_capability,
        ),
        _status("no-new-privileges", "NoNewPrivs", "1", "set-user-id programs give no rights"),
        _status("seccomp", "Seccomp", "2", "system calls are filtered"),
        Probe(
            id="raw-sockets",
            group="container",
            what="raw, packet and vsock sockets",
            expectation="refused",
            attempts={
                "raw": ("open_socket", {"family": 2, "kind": 3, "protocol": 255}),
                "raw ICMP": ("open_socket", {"family": 2, "kind": 3, "protocol": 1}),
                "packet": ("open_socket", {"family": 17, "kind": 3, "protocol": 768}),
                "vsock": ("open_socket", {"family": 40, "kind": 1}),
            },
            accepts=frozenset({"prohibited", "unsupported", "ENODEV"}),
        ),
        Probe(
            id="system-calls",
            group="container",
            what="system calls that lead out of a container",
            expectation="refused",
            attempts={
                name: ("syscall", {"name": name})
                for name in (
                    "unshare",
                    "mount",
                    "open_by_handle_at",
                    "bpf",
                    "init_module",
                    "kexec_load",
                    "perf_event_open",
                    "add_key",
                )
            },
            accepts=REFUSED_SYSCALL,
        ),
        Probe(
            id="read-only-root",
            group="container",
            what="file system: / is mounted read-only, system folders can't be written",
            expectation="read-only",
            attempts={"mount /": ("mount_flag", {"point": "/"})}
            | {
                path: ("write", {"path": path})
                for path in ("/", "/usr/bin", "/etc", "/etc/passwd", "/etc/ssl/certs", "/var/lib")
            },
            accepts=frozenset({"read-only", "absent"}),
        ),
        Probe(
            id="kernel-settings",
            group="container",
            what="/sys and /proc/sys",
            expectation="read-only",
            attempts={point: ("mount_flag", {"point": point}) for point in ("/sys", "/proc/sys")}
            | {
                path: ("write", {"path": path})
                for path in (
                    "/proc/sys/net/ipv4/ip_forward",
                    "/proc/sys/kernel/core_pattern",
                    "/proc/sysrq-trigger",
                    "/sys/kernel/uevent_helper",
                    "/sys/fs/cgroup/cgroup.procs",
                )
            },
            accepts=frozenset({"read-only", "absent"}),
        ),
        Probe(
            id="engine-sockets",
            group="container",
            what="sockets of container engines and of libvirt",
            expectation="absent",
            attempts={
                path: ("unix_socket", {"path": path})
                for path in (
                    "/var/run/docker.sock",
                    "/run/containerd/containerd.sock",
                    "/run/podman/podman.sock",
                    "/run/crio/crio.sock",
                    "/run/libvirt/libvirt-sock",
                    "/run/systemd/private",
                    "/run/dbus/system_bus_socket",
                )
            },
            accepts=frozenset({"absent"}),
        ),
        Probe(
            id="devices",
            group="container",
            what="device files beyond the usual ones",
            expectation="none",
            attempts={"/dev": ("devices", {})},
            accepts=frozenset({"none"}),
        ),
        Probe(
            id="one-interface",
            group="container",
            what="network interfaces besides loopback",
            expectation="one",
            attempts={"interfaces": ("interfaces", {})},
            accepts=frozenset({"1"}),
        ),
    ]


def _status(name: str, field_name: str, value: str, what: str) -> Probe:
    """A probe of one field of /proc/self/status."""
    return Probe(
        id=name,
        group="container",
        what=f"{what} ({field_name})",
        expectation=value,
        attempts={field_name: ("process_status", {"field": field_name})},
        accepts=frozenset({value}),
    )


# --- text of requests ----------------------------------------------------------------------------


def _absolute(method: str, host: str, path: str = "/") -> str:
    """A request in absolute form, as a client sends it to a forward proxy."""
    return (
        f"{method} http://{host}{path} HTTP/1.1\r\nHost: {host}\r\n"
        "User-Agent: abox-check\r\nConnection: close\r\n\r\n"
    )


def _inner(method: str, host: str, path: str) -> str:
    """A request in origin form, as a client sends it inside a tunnel."""
    return (
        f"{method} {path} HTTP/1.1\r\nHost: {host}\r\n"
        "User-Agent: abox-check\r\nConnection: close\r\n\r\n"
    )


def _connect(around: Surroundings, authority: str) -> Attempt:
    """A CONNECT whose tunnel, should it open, counts as open."""
    request = f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n"
    return ("http", {"proxy": [around.gateway, around.proxy_port], "request": request})
