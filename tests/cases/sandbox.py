"""A real sandbox as the runner uses it: brought up once, its policy changed in place."""

from __future__ import annotations

import functools
import importlib.util
import io
import itertools
import json
import os
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from pathlib import Path
from typing import Any

from abox.allowlist import Policy
from abox.host_state import state_dir, verdict_log
from abox.naming import bridge_name, egress_bridge_name
from abox.render.nftables import TableSpec, render_table
from abox.settings import CONTAINER, VM, Settings, parse_settings
from provider.engine import Engine
from provider.firewall_table import FirewallTable
from provider.gateway_policy import Gateway
from tests import host
from tests.cases.seat import ContainerSeat, Seat, VmSeat, put
from tests.stacks import Project, Stack
from tests.world import World
from tests.world.world import UPSTREAM_DNS

PROBE = "/tmp/abxt-probe.pyz"  # noqa: S108  # in the agent
PROBE_PACKAGES = ("h2", "hpack", "hyperframe")
PROBE_MODULES = ("tests/cases/probe",)
HEALTH = "healthcheck.abox.local"
VM_SIZE = {"cpus": 2, "memory_mb": 1024, "disk_gb": 5}


@functools.cache
def probe_archive() -> bytes:
    """The helper for the agent: a zip that its Python runs."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("__main__.py", (host.ROOT / PROBE_MODULES[0] / "__main__.py").read_text())
        for package in ("tests", "tests/cases"):
            archive.writestr(f"{package}/__init__.py", "")
        for path in sorted((host.ROOT / PROBE_MODULES[0]).glob("*.py")):
            archive.write(path, f"{PROBE_MODULES[0]}/{path.name}")
        for package in PROBE_PACKAGES:
            spec = importlib.util.find_spec(package)
            assert spec is not None
            assert spec.origin is not None
            folder = Path(spec.origin).parent
            for path in sorted(folder.rglob("*.py")):
                archive.write(path, f"{package}/{path.relative_to(folder)}")
    return buffer.getvalue()


class Prober:
    """The helper, serving actions: inside the agent, or as root in its network namespace."""

    def __init__(self, command: list[str], log: Path) -> None:
        self._process = host.spawn(command, stderr_path=log)
        self._numbers = itertools.count()
        self._answers: dict[int, dict[str, Any]] = {}
        self._log = log

    def start(self, kind: str, action: Mapping[str, Any]) -> int:
        """Let it act in the background; `finish` waits for the answer."""
        return self._send(kind, action, later=True)

    def finish(self, number: int) -> Any:
        """The answer to something started."""
        while number not in self._answers:
            assert self._process.stdout is not None
            line = self._process.stdout.readline()
            if not line:
                complaint = self._log.read_text()[-1000:] if self._log.exists() else ""
                raise RuntimeError(f"the probe in the agent ended: {complaint}")
            answer = json.loads(line)
            self._answers[answer["id"]] = answer
        answer = self._answers.pop(number)
        if "error" in answer:
            raise RuntimeError(f"probe: {answer['error']}")
        return answer["result"]

    def ask(self, kind: str, action: Mapping[str, Any]) -> Any:
        """Let it act, and wait."""
        return self.finish(self._send(kind, action, later=False))

    def _send(self, kind: str, action: Mapping[str, Any], *, later: bool) -> int:
        number = next(self._numbers)
        request = {"id": number, "kind": kind, "action": dict(action), "later": later}
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        self._process.stdin.flush()
        return number

    def close(self) -> None:
        """End it."""
        host.end(self._process)


@dataclass
class Facts:
    """Where the parts of a standing sandbox are."""

    outputs: Mapping[str, Any]
    lease: Mapping[str, Any] = field(default_factory=dict)

    @property
    def agent_container(self) -> str:
        """Name of the agent's container, where it is one."""
        return str(self.outputs["agent_container"])

    def container(self, role: str) -> str:
        """Name of one of the pod's containers."""
        return str(self.outputs["gateway_containers"][role])


class Sandbox:
    """One stack of the tests that stands."""

    def __init__(
        self,
        world: World,
        project: Project,
        name: str,
        log_folder: Path,
        *,
        backend: str = CONTAINER,
    ) -> None:
        self.world, self.name, self.backend = world, name, backend
        self.stack = Stack(project, name)
        self._logs = log_folder
        self._settings: dict[str, Any] = {}
        self._agent: Prober | None = None
        self._root: Prober | None = None
        self._authority: dict[str, Any] = {}
        self.facts = Facts({})

    # --- life -----------------------------------------------------------------------------

    def full_settings(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Settings of a case with what every sandbox of the tests needs."""
        base: dict[str, Any] = {"upstream_dns": [UPSTREAM_DNS], "trusted_cas": [self.world.ca_pem]}
        if self.backend == VM:
            base |= {"backend": VM}
            settings = {**settings, "vm": {**VM_SIZE, **settings.get("vm", {})}}
        full = {"allow": [], **base, **settings}
        if full.get("mode") == "passive":
            full["passive_acknowledged"] = True
        return full

    def up(self, settings: Mapping[str, Any], *, check: bool = True) -> host.Completed:
        """Bring the stack up with these settings, by Pulumi."""
        self._settings = self.full_settings(settings)
        bridge = bridge_name(self.name)
        self.world.join(bridge, egress_bridge_name(self.name))  # before anything can send
        self.stack.configure(self._settings)
        done = self.stack.up(check=check)
        if done.code == 0:
            self.attach()
        return done

    def attach(self) -> None:
        """Find the parts of the standing sandbox and let the world watch them."""
        self.detach()
        self.facts = Facts(self.stack.outputs(), self._resource("abox:index:SubnetLease"))
        self.world.join(self.bridge, self.facts.lease["egress_bridge"])
        self.world.watch_pod(self.pid("pause"))

    def detach(self) -> None:
        """Leave the sandbox's namespaces."""
        for prober in (self._agent, self._root):
            if prober is not None:
                prober.close()
        self._agent = self._root = None
        self.world.forget_pods()

    def down(self) -> None:
        """Take the stack away."""
        self.detach()
        self.stack.remove()

    # --- facts ----------------------------------------------------------------------------

    @property
    def gateway(self) -> str:
        """The pod's address on the sandbox's bridge."""
        return str(self.facts.outputs["gateway"])

    @property
    def subnet(self) -> IPv4Network:
        """The sandbox's network."""
        return IPv4Network(self.facts.outputs["subnet"])

    @property
    def agent_address(self) -> str:
        """The agent's address."""
        return str(self.subnet[10])

    @property
    def host_address(self) -> str:
        """The host's address on the sandbox's bridge."""
        return str(self.subnet[1])

    @property
    def bridge(self) -> str:
        """The sandbox's bridge."""
        return str(self.facts.outputs["bridge"])

    @property
    def proxy_port(self) -> int:
        """Port of the proxy."""
        return int(str(self.facts.outputs["proxy"]).rpartition(":")[2])

    @property
    def table(self) -> str:
        """The sandbox's nftables table."""
        return str(self.facts.outputs["firewall_table"])

    def inspect(self, container: str) -> dict[str, Any]:
        """What the engine says about a container."""
        listed: list[dict[str, Any]] = json.loads(host.run(["docker", "inspect", container]).stdout)
        return listed[0]

    def pid(self, role: str) -> int:
        """Process id of a container's first process, as the host counts."""
        name = self.facts.agent_container if role == "agent" else self.facts.container(role)
        return int(self.inspect(name)["State"]["Pid"])

    @property
    def seat(self) -> Seat:
        """The way into the agent."""
        if self.backend == VM:
            return VmSeat(self.name)
        return ContainerSeat(self.facts.agent_container, self.subnet)

    def running(self) -> bool:
        """Whether an agent of the sandbox runs, also where `up` failed."""
        if self.backend == VM:
            listed = host.run(["virsh", "-q", "-c", "qemu:///system", "list", "--name"]).stdout
            return any(name.startswith(f"{self.name}-") for name in listed.split())
        labels = [f"label=abox.sandbox={self.name}", "label=abox.role=agent"]
        filters = [word for label in labels for word in ("--filter", label)]
        return bool(host.run(["docker", "ps", "-q", *filters]).stdout.strip())

    def gateway_mac(self) -> str:
        """The pod's hardware address on the sandbox's bridge."""
        networks = self.inspect(self.facts.container("pause"))["NetworkSettings"]["Networks"]
        found = (n["MacAddress"] for n in networks.values() if n["IPAddress"] == self.gateway)
        return str(next(found))

    def log(self, role: str, since: float) -> host.Completed:
        """What a container of the pod logged since a time (seconds since 1970)."""
        command = ["docker", "logs", "--since", f"{since:.3f}", self.facts.container(role)]
        return host.run(command, check=False)

    def verdict_lines(self) -> list[str]:
        """Lines of the verdict log, as they are in its files."""
        folder = verdict_log(Path(state_dir(os.environ)), self.name)
        files = sorted(folder.glob("*.jsonl*"))
        return [line for file in files for line in file.read_text().splitlines()]

    def files_with(self, role: str, text: str, folders: tuple[str, ...]) -> list[str]:
        """Files below folders of a container of the pod that hold a text."""
        command = ["docker", "exec", self.facts.container(role)]
        done = host.run([*command, "grep", "-rlFs", text, *folders], check=False)
        return done.stdout.split()

    # --- probes ---------------------------------------------------------------------------

    def copy_probe(self) -> None:
        """Put the helper into the agent; its place ends with the agent's life."""
        put(self.seat, PROBE, probe_archive())

    def _prober(self, command: list[str], who: str) -> Prober:
        self.copy_probe()
        return Prober(command, self._logs / f"{self.name}-{who}.log")

    @property
    def _serve(self) -> list[str]:
        return ["serve", self.gateway, str(self.proxy_port)]

    @property
    def agent(self) -> Prober:
        """The helper inside the agent."""
        if self._agent is None:
            command = self.seat.inside(["python3", PROBE, *self._serve])
            self._agent = self._prober(command, "agent")
        return self._agent

    @property
    def root(self) -> Prober:
        """The helper as root in the agent's network: an agent that broke out."""
        if self._root is None:
            command = self.seat.python_beside(PROBE, self._serve)
            self._root = self._prober(command, "root")
        return self._root

    def in_agent_network(self, *args: str, check: bool = True) -> host.Completed:
        """Run a program as root in the agent's network."""
        return host.run(self.seat.beside(list(args)), check=check)

    def exec(self, args: list[str], timeout_s: float = 120) -> host.Completed:
        """Run a program in the agent, as the most privileged user that it can become."""
        return host.run(self.seat.strongest(args), check=False, timeout_s=timeout_s)

    # --- policy ---------------------------------------------------------------------------

    def parse(self, settings: Mapping[str, Any]) -> Settings:
        """The settings as the program reads them.

        Raises: AboxError if it refuses them.
        """
        return parse_settings(self.name, self.full_settings(settings))

    def apply(self, settings: Mapping[str, Any]) -> None:
        """Make a policy live the way the provider's resources do, without Pulumi.

        Raises: AboxError if the settings or the gateway refuse it.
        """
        parsed = self.parse(settings)
        FirewallTable(self.table, run_nft).apply(self._rules(parsed))
        self._gateway().apply(self._document(parsed))
        self._settings = self.full_settings(settings)

    def applier(self, settings: Mapping[str, Any]) -> Callable[[], None]:
        """A function that applies the same policy again, with everything looked up already."""
        parsed = self.parse(settings)
        rules, document, gateway = self._rules(parsed), self._document(parsed), self._gateway()

        def apply() -> None:
            FirewallTable(self.table, run_nft).apply(rules)
            gateway.apply(document)

        return apply

    def _gateway(self) -> Gateway:
        control = self.inspect(self.facts.container("control"))["Id"]
        return Gateway(control, Engine)

    def _document(self, parsed: Settings) -> dict[str, Any]:
        resolvers = [str(a) for a in parsed.upstream_dns]
        return {
            "sandbox": self.name,
            "policy": parsed.policy.to_document(),
            "network": {
                "gateway": self.gateway,
                "proxy_port": self.proxy_port,
                "upstream_dns": resolvers,
            },
            "ca": self.authority,
            "trusted_cas": list(parsed.trusted_cas),
            "secrets": {},
        }

    def _resource(self, kind: str) -> dict[str, Any]:
        """Outputs of the stack's one resource of a type, secrets in the clear."""
        resources = self.stack.secret_outputs()["deployment"]["resources"]
        made = next(r for r in resources if r["type"].rpartition("$")[2] == kind)
        return {name: _clear(value) for name, value in made["outputs"].items()}

    @property
    def authority(self) -> dict[str, Any]:
        """The sandbox's authority: certificate and key, PEM."""
        if not self._authority:
            made = self._resource("abox:index:CertificateAuthority")
            self._authority = {name: made[name] for name in ("certificate", "key")}
        return self._authority

    def _rules(self, parsed: Settings) -> str:
        lease = self.facts.lease
        policy: Policy = parsed.policy
        return render_table(
            TableSpec(
                table=self.table,
                bridge=self.bridge,
                egress_bridge=lease["egress_bridge"],
                subnet=self.subnet,
                gateway=IPv4Address(self.gateway),
                agent=self.subnet[10],
                host=self.subnet[1],
                egress_subnet=IPv4Network(lease["egress_subnet"]),
                pod_egress=IPv4Address(lease["egress_gateway"]),
                egress_subnet_v6=IPv6Network(lease["egress_subnet_v6"]),
                pod_egress_v6=IPv6Address(lease["egress_gateway_v6"]),
                proxy_port=self.proxy_port,
                upstream_dns=parsed.upstream_dns,
                tcp_ports=policy.tcp_ports,
                allow_private_cidrs=policy.allow_private_cidrs,
            )
        )

    def forget_answers(self) -> None:
        """Restart dns and proxy, so that no cache carries an answer from case to case."""
        names = [self.facts.container(role) for role in ("dns", "proxy")]
        host.run(["docker", "restart", "-t", "1", *names])
        control = self.facts.container("control")
        host.run(["docker", "exec", control, "abox-gateway", "ready", "--timeout", "30"])

    def alive(self) -> bool:
        """Whether name service and proxy still serve others."""
        page = {"method": "GET", "url": f"http://{HEALTH}/", "via": "proxy"}
        (response,) = self.agent.ask("http", page)
        (answer,) = self.agent.ask("dns", {"name": HEALTH, "type": "A"})
        return bool(response["status"] == 200 and answer["rcode"] == "NOERROR")


def run_nft(*args: str, stdin: str = "") -> str:
    """The nft tool, in the form that the provider's worker takes."""
    return host.run(["nft", *args], text=stdin).stdout


def _clear(value: Any) -> Any:
    """A value of the exported state without the wrapping of secrets."""
    if isinstance(value, dict) and "plaintext" in value:
        return json.loads(value["plaintext"])
    return value
