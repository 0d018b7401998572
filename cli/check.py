"""`abox check`: try, from inside a sandbox, what must work and everything that must not.

The probes run as the agent's user in the agent's own container; what they may lead to is judged
here, outside. A sandbox whose processes want to deceive their user can lie to a program that runs
among them: this is a test of the walls, not of the agent's honesty.
"""

import contextlib
import json
import secrets
import socket
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from ipaddress import AddressValueError, IPv4Address, IPv4Network, ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import typer
from rich.text import Text

from abox.addresses import AGENT_NUMBER, GATEWAY_NUMBER, HOST_NUMBER, judged_allowed
from abox.agent_environment import BUNDLE_VARIABLES, PROXY_VARIABLES
from abox.allowlist import Allow, Deny, Mode, Policy, Reason, Request, verdict
from abox.errors import ExitCode, HostError
from abox.naming import Role, bridge_name, default_mac
from abox.settings import Settings
from cli import host, probes
from cli.checkout import current_checkout
from cli.containers import Container, check_known, list_containers, of_role, running_of_role
from cli.frames import ATTACKS, BROADCAST, HONEST, Maker, mark_of
from cli.guests import Guest, guest_of, list_guests
from cli.listing import lease_folder, read_leases
from cli.output import mark, note, say, say_json, say_table, table_width
from cli.parameters import AsJson, Stack
from cli.probe_plan import (
    DENIED_CANDIDATES,
    AllowedRequest,
    Answer,
    Neighbour,
    Probe,
    Row,
    Surroundings,
    judge,
    plan_probes,
    to_script,
)
from cli.stack_file import read_settings

TIMEOUT_S = 60.0
"""The probes end by themselves long before."""

GUEST_TIMEOUT_S = 600.0
"""A VM without hardware virtualisation takes its time."""

GUEST_THREADS = 8
"""Attempts at the same time in a VM: a handshake among many more takes longer than its limit."""

GUEST_PYTHON = (
    "if sudo -n true 2>/dev/null; then exec sudo -n -E python3 -I -B -; fi; exec python3 -I -B -"
)
"""As root where the account may become it: an agent could, so the probes must."""

NO_INTERPRETER = 127
"""Exit code of a shell that finds no such program."""

INTERPRETERS = ("/usr/bin/python3", "/usr/local/bin/python3", "python3")
"""Tried in this order: the system's own comes before whatever the agent has put on its PATH."""

PRIVATE_CANDIDATES = ("127.0.0.1", "169.254.169.254", "10.0.0.5", "192.168.0.1", "172.17.0.1")

ODD_PORTS = (22, 25, 8443, 3389)
"""Ports from which one that an allowed name lacks is taken."""

Answers = dict[str, dict[str, Answer]]
"""By probe and by the label of an attempt."""

ALL_KINDS = 0x0003
"""Protocol of a packet socket that gets every frame."""

LISTEN = "0A"
"""State of a listening socket in /proc/net/tcp."""

WIDE = 140
"""Columns from which the table shows what was expected."""

MAX_HOST_PORTS = 64
"""Listening ports of the host that are tried at each of its addresses."""


def check(stack: Stack, *, as_json: AsJson = False) -> None:
    """Prove from inside STACK that allowed things work and everything else is closed.

    Tries DNS, proxy, direct connections, the host, other sandboxes, and what the container itself
    may do. Sends nothing to the internet but one request for an allowed name. Exit code 1 if
    anything is open or a positive control fails.
    """
    checkout = current_checkout()
    containers = list_containers()
    check_known(checkout, stack, containers)
    settings = read_settings(checkout, stack)
    guest = guest_of(checkout, stack)
    if guest is None:
        agent = running_of_role(containers, stack, Role.AGENT)
        rows = check_rows(agent, containers, settings.policy)
    else:
        rows = check_guest(guest, containers, settings)
    if as_json:
        say_json(to_document(stack, rows))
    else:
        _show(stack, rows)
    if not all(row.ok for row in rows):
        raise typer.Exit(int(ExitCode.CHECK_FAILED))


def check_rows(agent: Container, containers: list[Container], policy: Policy) -> list[Row]:
    """Run every probe and judge its answers."""
    gateway, port = proxy_of(agent)
    with HostListener(str(gateway - 1)) as listener:
        around = surroundings(agent.sandbox, containers, policy, gateway, port, listener.port)
        planned = plan_probes(around)
        planned, answers = run_probes(agent, containers, planned)
        rows = [judge(probe, answers.get(probe.id, {})) for probe in planned]
        if listener.port is not None:
            rows.append(listener.row())
    return rows


def proxy_of(agent: Container) -> tuple[IPv4Address, int]:
    """Address and port of the proxy, as the agent's own variables say.

    Raises:
        HostError: the container has no such variable.
    """
    url = urlsplit(agent.environment.get("HTTP_PROXY", ""))
    try:
        return IPv4Address(url.hostname or ""), url.port or 0
    except (AddressValueError, ValueError) as error:
        raise HostError(
            what=f"container {agent.name} doesn't say where its proxy is",
            why="its variable HTTP_PROXY is missing or is no URL with an address",
            remedy=f"run `pulumi up -s {agent.sandbox}`, which makes the container anew",
        ) from error


def check_guest(guest: Guest, containers: list[Container], settings: Settings) -> list[Row]:
    """Run the probes as root of a VM, and watch from outside which of its frames pass.

    Raises:
        HostError: the sandbox has no subnet on this host, or the probes can't run.
    """
    lease = read_leases(lease_folder()).get(guest.sandbox)
    if lease is None:
        raise HostError(
            what=f"sandbox {guest.sandbox} has no subnet on this host",
            why="its lease is gone",
            remedy=f"run `pulumi up -s {guest.sandbox}`",
        )
    subnet = IPv4Network(lease.subnet)
    bridge_host, gateway = subnet[HOST_NUMBER], subnet[GATEWAY_NUMBER]
    maker = Maker(
        mac=settings.vm.mac or default_mac(guest.sandbox),
        agent=str(subnet[AGENT_NUMBER]),
        gateway=str(gateway),
        host=str(bridge_host),
        gateway_mac=BROADCAST,  # so that a watcher on the host sees it as well
    )
    watcher = FrameWatcher(bridge_name(guest.sandbox), maker)
    with HostListener(str(bridge_host)) as listener, watcher:
        around = surroundings(
            guest.sandbox,
            containers,
            settings.policy,
            gateway,
            settings.proxy_port,
            listener.port,
        )
        around = replace(around, own_resolvers=())
        inside = [probe for probe in plan_probes(around) if probe.group != "container"]
        planned = [*inside, *watcher.probes()]
        answers = run_in_guest(guest, planned)
        rows = [judge(probe, answers.get(probe.id, {})) for probe in planned]
        if listener.port is not None:
            rows.append(listener.row())
        return [*rows, *watcher.rows()]


def run_in_guest(guest: Guest, planned: list[Probe]) -> Answers:
    """Answers of all probes, carried out by the VM's root.

    Raises:
        HostError: the probes can't run.
    """
    done = host.run(
        [*guest.ssh("-T"), GUEST_PYTHON],
        stdin=script_text(planned, threads=GUEST_THREADS),
        timeout_s=GUEST_TIMEOUT_S,
    )
    if done.code == 0:
        return parse_answers(done.stdout)
    raise _not_run(f"the VM of {guest.sandbox}", guest.sandbox, done.stderr)


def surroundings(
    sandbox: str,
    containers: Iterable[Container],
    policy: Policy,
    gateway: IPv4Address,
    proxy_port: int,
    listener_port: int | None,
) -> Surroundings:
    """Facts about the sandbox, its policy and its host."""
    denied = denied_names(policy)
    return Surroundings(
        gateway=str(gateway),
        proxy_port=proxy_port,
        bridge_host=str(gateway - 1),
        host_addresses=tuple(one for one in host_addresses() if one != str(gateway - 1)),
        host_ports=listening_ports(),
        listener_port=listener_port,
        neighbours=neighbours(sandbox, containers, _vms(), gateway),
        denied=denied,
        look_alikes=look_alikes(policy, denied),
        allowed=allowed_request(policy),
        denied_port=denied_port(policy),
        private=tuple(
            one
            for one in PRIVATE_CANDIDATES
            if not judged_allowed(ip_address(one), policy.allow_private_cidrs)
        ),
        interception=policy.tls_interception,
        proxy_variables=tuple(name for upper in PROXY_VARIABLES for name in (upper, upper.lower())),
        trust_variables=(*BUNDLE_VARIABLES, "NODE_EXTRA_CA_CERTS", "SSL_CERT_DIR"),
        address_reasons=frozenset({Reason.SPECIAL_ADDRESS.value}),
        fresh_label=f"abox-check-{secrets.token_hex(6)}",
    )


# --- names from the policy -----------------------------------------------------------------------


def denied_names(policy: Policy) -> tuple[str, ...]:
    """Names that exist outside and that the policy denies altogether; none in passive mode."""
    if policy.mode is Mode.PASSIVE:
        return ()
    return tuple(name for name in DENIED_CANDIDATES if _denied(policy, name))


def look_alikes(policy: Policy, denied: tuple[str, ...]) -> tuple[str, ...]:
    """Denied names that contain an allowed one."""
    if not denied:
        return ()
    names = [entry.name for entry in policy.entries if entry.literal is None][:3]
    candidates = [
        text for name in names for text in (f"{name}.{denied[0]}", f"x{name}", f"x-{name}")
    ]
    return tuple(name for name in candidates if _denied(policy, name))


def allowed_request(policy: Policy) -> AllowedRequest | None:
    """A harmless request that the policy allows; None if there is none."""
    for entry in sorted(policy.entries, key=lambda one: (bool(one.inject), one.is_wildcard)):
        name = f"abox-check.{entry.name}" if entry.is_wildcard else entry.name
        path = entry.paths[0].replace("*", "abox-check") if entry.paths else "/"
        port = 443 if 443 in entry.ports else entry.ports[0]
        for method in ("HEAD", "GET", "OPTIONS"):
            scheme = "http" if port == 80 else "https"
            asked = Request(name=name, port=port, scheme=scheme, method=method, path=path)
            if isinstance(verdict(policy, asked), Allow) and entry.literal is None:
                return AllowedRequest(name, port, method, path)
    return None


def denied_port(policy: Policy) -> tuple[str, int] | None:
    """An allowed name with a port on which it isn't allowed."""
    for entry in policy.entries:
        for port in ODD_PORTS:
            judged = verdict(policy, Request(name=entry.name, port=port, method="CONNECT"))
            if isinstance(judged, Deny) and judged.reason is Reason.PORT:
                return entry.name, port
    return None


def _denied(policy: Policy, name: str) -> bool:
    """Whether a name, and every name below it, is denied on every usual port."""
    below = f"abox-check.{name}"
    return all(
        isinstance(verdict(policy, Request(name=one, port=port, method="CONNECT")), Deny)
        for one in (name, below)
        for port in (80, 443)
    ) and not any(entry.host in (name, f"*.{name}") for entry in policy.entries)


# --- facts about the host ------------------------------------------------------------------------


def host_addresses() -> list[str]:
    """IPv4 addresses of the host besides loopback, at most 16."""
    done = host.run(["ip", "-json", "-4", "address", "show"])
    return parse_addresses(done.stdout)[:16]


def parse_addresses(text: str) -> list[str]:
    """Addresses in the output of `ip -json address`, loopback left out."""
    try:
        links = json.loads(text or "[]")
    except ValueError:
        return []
    return [
        one["local"]
        for link in links
        for one in link.get("addr_info", [])
        if one.get("family") == "inet" and link.get("ifname") != "lo"
    ]


def listening_ports() -> tuple[int, ...]:
    """TCP ports on which something of the host listens."""
    found: set[int] = set()
    for name in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            found |= parse_listening(Path("/proc/net", name).read_text())
    return tuple(sorted(found)[:MAX_HOST_PORTS])


def parse_listening(text: str) -> set[int]:
    """Ports of listening sockets in a table such as /proc/net/tcp."""
    rows = [line.split() for line in text.splitlines()[1:]]
    return {
        int(words[1].rpartition(":")[2], 16) for words in rows if len(words) > 3
        and words[3] == LISTEN
    }  # fmt: skip


def _vms() -> dict[str, str]:
    """Addresses of this host's VMs by sandbox."""
    leases = read_leases(lease_folder())
    return {
        guest.sandbox: str(IPv4Network(leases[guest.sandbox].subnet)[AGENT_NUMBER])
        for guest in list_guests(leases)
    }


def neighbours(
    sandbox: str, containers: Iterable[Container], vms: Mapping[str, str], gateway: IPv4Address
) -> tuple[Neighbour, ...]:
    """Addresses of other sandboxes, and the own pod's leg on the egress bridge.

    Args:
        sandbox: the one that is checked.
        containers: all of this host.
        vms: addresses of all VMs by sandbox.
        gateway: address of the own pod on the host-only bridge.
    """
    found = []
    for one in containers:
        for address in one.addresses.values():
            if one.sandbox != sandbox:
                found.append(Neighbour(one.sandbox, one.role, address))
            elif one.role == Role.PAUSE and address != str(gateway):
                found.append(Neighbour("own", "egress leg", address))
    found += [Neighbour(name, "vm", address) for name, address in vms.items() if name != sandbox]
    return tuple(found[:16])


class FrameWatcher:
    """Looks at a bridge for frames that the VM must not get past its tap.

    Args:
        bridge: the sandbox's bridge.
        maker: knows the addresses of the sandbox.
    """

    def __init__(self, bridge: str, maker: Maker) -> None:
        self._bridge = bridge
        self._maker = maker
        self._socket: socket.socket | None = None

    def __enter__(self) -> "FrameWatcher":
        with contextlib.suppress(OSError):  # no root: then nothing is proven, and told so
            watching = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ALL_KINDS))
            watching.bind((self._bridge, 0))
            watching.setblocking(False)  # noqa: FBT003  # the standard library's own signature
            self._socket = watching
        return self

    def __exit__(self, *_: object) -> None:
        if self._socket is not None:
            self._socket.close()

    def probes(self) -> list[Probe]:
        """The frames that the VM's root sends."""
        made = {**HONEST, **ATTACKS}
        return [
            Probe(
                id="frames-sent",
                group="works",
                what=f"the VM's root sends {len(made)} kinds of raw frames",
                expectation="sent",
                attempts={
                    name: ("frame", {"data": make(self._maker, mark_of(name)).hex()})
                    for name, make in made.items()
                },
                accepts=frozenset({"sent"}),
            )
        ]

    def rows(self) -> list[Row]:
        """Which of them were seen behind the tap."""
        seen = self._seen()
        honest, passed = sorted(HONEST.keys() & seen), sorted(ATTACKS.keys() & seen)
        control = Row(
            id="frames-control",
            group="works",
            what="a true frame is seen on the bridge",
            expectation=", ".join(sorted(HONEST)),
            result=", ".join(honest) or "nothing",
            state="ok" if len(honest) == len(HONEST) else "fails",
        )
        dropped = Row(
            id="frames-dropped",
            group="network",
            what="frames with false addresses, DHCP, VLAN tags, IPv6 and other kinds",
            expectation="none is seen on the bridge",
            result=", ".join(passed) or f"none of {len(ATTACKS)}",
            state="open" if passed else "ok" if honest else "unproven",
        )
        return [control, dropped]

    def _seen(self) -> set[str]:
        """Names of the frames that wait in the socket."""
        frames = []
        with contextlib.suppress(BlockingIOError):
            while self._socket is not None:
                frames.append(self._socket.recv(2048))
        return {name for name in (*HONEST, *ATTACKS) if any(mark_of(name) in f for f in frames)}


class HostListener:
    """A TCP and a UDP socket on the host's bridge address, which nothing may reach.

    Args:
        address: the host's address on the sandbox's bridge.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        self._stream = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._datagram = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.port: int | None = None
        """Port of both; None if they can't be opened."""

    def __enter__(self) -> "HostListener":
        with contextlib.suppress(OSError):
            self._stream.bind((self._address, 0))
            port = self._stream.getsockname()[1]
            self._datagram.bind((self._address, port))
            self._stream.listen()
            self.port = port
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()
        self._datagram.close()

    def row(self) -> Row:
        """Whether anything has arrived."""
        arrived = [name for name, one in self._sockets() if _readable(one)]
        return Row(
            id="host-listener-silent",
            group="network",
            what="host: what arrived at that listener",
            expectation="nothing",
            result=" and ".join(arrived) or "nothing",
            state="open" if arrived else "ok",
        )

    def _sockets(self) -> Iterator[tuple[str, socket.socket]]:
        yield "a connection", self._stream
        yield "a datagram", self._datagram


def _readable(one: socket.socket) -> bool:
    """Whether a connection or a datagram waits at a socket."""
    one.settimeout(0.05)
    try:
        if one.type == socket.SOCK_STREAM:
            one.accept()[0].close()
        else:
            one.recv(1)
    except OSError:
        return False
    return True


# --- running -------------------------------------------------------------------------------------


def run_probes(
    agent: Container, containers: list[Container], planned: list[Probe]
) -> tuple[list[Probe], Answers]:
    """Answers of all probes, by probe and label; and the probes that could be carried out.

    Raises:
        HostError: the probes can't run.
    """
    script = script_text(planned)
    choose = "; ".join(
        f"command -v {one} >/dev/null 2>&1 && exec {one} -I -B -" for one in INTERPRETERS
    )
    arguments = ["docker", "exec", "--interactive", agent.id, "sh", "-c", f"{choose}; exit 127"]
    done = host.run(arguments, stdin=script, timeout_s=TIMEOUT_S)
    if done.code == 0:
        return planned, parse_answers(done.stdout)
    if done.code == NO_INTERPRETER:
        return _run_beside(agent, containers, planned)
    raise _not_run(agent.name, agent.sandbox, done.stderr)


def script_text(planned: Iterable[Probe], threads: int = probes.THREADS) -> str:
    """The program that is sent into the agent: the probes' module and a call of it."""
    source = Path(probes.__file__).read_text(encoding="utf-8")
    plan = json.dumps(to_script(planned))
    return f"{source}\n\nmain(json.loads({plan!r}), {threads})\n"


def _run_beside(
    agent: Container, containers: list[Container], planned: list[Probe]
) -> tuple[list[Probe], Answers]:
    """Probes for an image without Python.

    Those of the network run in a container of the gateway's image that joins the agent's network
    namespace, with the agent's user, variables and volumes. Of the others, what /proc says about
    the agent's first process is read from outside; the rest is left out.
    """
    note(f"{agent.name} has no python3: network probes run beside it, in its network namespace")
    note("probes that need a program inside the container are left out")
    control = of_role(containers, agent.sandbox, Role.CONTROL)
    beside = [probe for probe in planned if probe.group != "container"]
    outside = list(_readable_from_outside(planned))
    arguments = [
        "docker", "run", "--rm", "--interactive", "--network", f"container:{agent.id}",
        "--volumes-from", f"{agent.id}:ro", "--user", agent.user or "0", "--cap-drop", "ALL",
        "--security-opt", "no-new-privileges", "--read-only", "--pids-limit", "256",
        "--name", f"abox-check-{agent.sandbox}-{secrets.token_hex(3)}",
        "--entrypoint", "python3",
    ]  # fmt: skip
    for name, value in agent.environment.items():
        if name != "PATH":
            arguments += ["--env", f"{name}={value}"]
    done = host.run(
        [*arguments, control.image, "-I", "-B", "-"],
        stdin=script_text(beside),
        timeout_s=TIMEOUT_S,
    )
    if done.code != 0:
        raise _not_run(agent.name, agent.sandbox, done.stderr)
    read = {probe.id: _read_from_outside(agent, probe) for probe in outside}
    return [*beside, *outside], parse_answers(done.stdout) | read


def _readable_from_outside(planned: Iterable[Probe]) -> Iterator[Probe]:
    """Probes of the container, each with those of its attempts that need no program inside."""
    for probe in planned:
        attempts = {
            label: one for label, one in probe.attempts.items() if one[0] in probes.FROM_OUTSIDE
        }
        if probe.group == "container" and attempts:
            yield replace(probe, attempts=attempts)


def _read_from_outside(agent: Container, probe: Probe) -> dict[str, Answer]:
    """What /proc says about the agent's first process."""
    return {
        label: Answer(*probes.attempt(kind, {**arguments, "process": str(agent.pid)}))
        for label, (kind, arguments) in probe.attempts.items()
    }


def _not_run(name: str, sandbox: str, said: str) -> HostError:
    """Error for probes that ended badly."""
    lines = [line for line in said.splitlines() if line.strip()]
    return HostError(
        what=f"the probes did not run in {name}",
        why=lines[-1] if lines else "they said nothing",
        remedy=f"see that `abox exec {sandbox} -- python3 --version` works",
    )


def parse_answers(text: str) -> Answers:
    """Answers as the probes print them; what has another form is dropped, and so counts as bad."""
    try:
        document = json.loads(text.strip().splitlines()[-1])
    except (ValueError, IndexError):
        return {}
    if not isinstance(document, dict):
        return {}
    return {
        name: {label: Answer(*one) for label, one in labels.items() if _well_formed(one)}
        for name, labels in document.items()
        if isinstance(labels, dict)
    }


def _well_formed(answer: Any) -> bool:
    """Whether an answer is an outcome, a detail and seconds."""
    return (
        isinstance(answer, list)
        and len(answer) == 3
        and isinstance(answer[0], str)
        and isinstance(answer[1], str)
        and isinstance(answer[2], (int, float))
    )


# --- showing -------------------------------------------------------------------------------------


def to_document(stack: str, rows: list[Row]) -> dict[str, Any]:
    """The check for programs."""
    return {
        "stack": stack,
        "ok": all(row.ok for row in rows),
        "probes": [
            {
                "id": row.id,
                "group": row.group,
                "what": row.what,
                "expectation": row.expectation,
                "result": row.result,
                "ok": row.ok,
                "state": row.state,
            }
            for row in rows
        ],
    }


def _show(stack: str, rows: list[Row]) -> None:
    """The check for people."""
    wide = table_width() >= WIDE
    columns = ["probe", "what is tried", "expected", "result", ""]
    cells: list[list[str | Text]] = [
        [row.id, row.what, row.expectation, row.result, mark(row.state, ok=row.ok)] for row in rows
    ]
    if not wide:  # the words of a good result tell what was expected
        columns.pop(2)
        cells = [[*line[:2], *line[3:]] for line in cells]
    say_table(columns, cells)
    bad = [row for row in rows if not row.ok]
    if bad:
        say(f"{stack}: {len(bad)} of {len(rows)} probes failed: {', '.join(r.id for r in bad)}")
    else:
        say(f"{stack}: all {len(rows)} probes are as they should be")
