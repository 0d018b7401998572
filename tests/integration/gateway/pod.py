"""A gateway pod of the tests, made of abox.pod alone: no Pulumi, no firewall, no agent.

What it must hold it holds by itself: these tests show the data plane's own refusals, with the
egress table out of the way.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

from abox import pod
from abox.allowlist import parse_policy
from abox.verdict_log import NameVerdict, RequestVerdict, Verdict, parse_line
from components.images import read_image_ids
from tests import host
from tests.integration.gateway.authority import make_authority
from tests.world.world import UPSTREAM_DNS

READY_S = 30
LIVE_CODE = "ABOXT_LIVE_CODE"
"""Set to 1: the checkout's abox/ and gateway/ are mounted over those of the image."""


@dataclass
class GatewayPod:
    """One running pod."""

    name: str
    """Prefix of everything that it is made of; the bridges are ``name`` + b and + e."""
    subnet: IPv4Network
    egress_subnet: IPv4Network
    proxy_port: int = 8080
    authority: tuple[str, str] = field(default_factory=make_authority)
    """Certificate and key, PEM."""
    containers: dict[str, str] = field(default_factory=dict)
    """Role to container id."""
    in_force: str | None = None
    """What was applied last, unless a command was run since."""

    @property
    def gateway(self) -> str:
        """Address of the pod on the host-only bridge."""
        return str(self.subnet.network_address + 2)

    @property
    def log_folder(self) -> Path:
        """The host's folder of the verdict log."""
        return Path(tempfile.gettempdir(), f"{self.name}-{pod.LOG_FOLDER}")

    def verdicts(self) -> list[Verdict]:
        """The verdict log so far, in the order of time."""
        texts = [path.read_text() for path in self.log_folder.glob("*-*.jsonl*")]
        found = [parse_line(line) for text in texts for line in text.splitlines()]
        assert None not in found
        return sorted((line for line in found if line is not None), key=lambda line: line.time)

    def requests_logged(self) -> list[RequestVerdict]:
        """Requests in the verdict log."""
        return [line for line in self.verdicts() if isinstance(line, RequestVerdict)]

    def names_logged(self) -> list[NameVerdict]:
        """Queries in the verdict log."""
        return [line for line in self.verdicts() if isinstance(line, NameVerdict)]

    @property
    def bridges(self) -> tuple[str, str]:
        """Interface names of both bridges."""
        return f"{self.name}b", f"{self.name}e"

    def start(self) -> None:
        """Make networks, volumes and containers."""
        self._add_network(self.bridges[0], self.subnet, internal=True)
        self._add_network(self.bridges[1], self.egress_subnet, internal=False)
        for volume, options in pod.VOLUMES.items():
            opts = [f"--opt={key}={value}" for key, value in options.items()]
            _docker("volume", "create", *opts, self._named(volume))
        self.log_folder.mkdir(mode=0o700)
        os.chown(self.log_folder, pod.CONTROL_ID, pod.CONTROL_ID)
        specs = (
            pod.pause_container(),
            pod.control_container(self.gateway, self.proxy_port, self.name),
            pod.dns_container(self.gateway),
            pod.proxy_container(self.gateway, self.proxy_port, self.name),
        )
        for spec in specs:
            self.containers[spec.role] = self._run(spec)
            if spec.role == "pause":
                egress = str(self.egress_subnet.network_address + 2)
                _docker("network", "connect", "--ip", egress, self.bridges[1], self._named("pause"))

    def stop(self) -> None:
        """Remove everything, whatever of it there is."""
        names = [self._named(role) for role in ("proxy", "dns", "control", "pause")]
        host.run(["docker", "rm", "-f", *names], check=False)
        host.run(["docker", "network", "rm", *self.bridges], check=False)
        volumes = [self._named(volume) for volume in pod.VOLUMES]
        host.run(["docker", "volume", "rm", "-f", *volumes], check=False)
        shutil.rmtree(self.log_folder, ignore_errors=True)

    def apply(
        self,
        allow: Sequence[object] = (),
        *,
        upstream_dns: Sequence[str] = (UPSTREAM_DNS,),
        trusted_cas: Sequence[str] = (),
        unless_live: bool = False,
        secrets: Mapping[str, str] | None = None,
        **settings: Any,
    ) -> dict[str, Any]:
        """Make a policy live; the answer of ``abox-gateway apply``.

        With ``unless_live`` nothing is done where this very document was the last to be applied.
        """
        policy = parse_policy(list(allow), **settings).to_document()
        return self.apply_document(
            policy, upstream_dns, trusted_cas, secrets, unless_live=unless_live
        )

    def apply_document(
        self,
        policy: Mapping[str, Any],
        upstream_dns: Sequence[str] = (UPSTREAM_DNS,),
        trusted_cas: Sequence[str] = (),
        secrets: Mapping[str, str] | None = None,
        *,
        unless_live: bool = False,
    ) -> dict[str, Any]:
        """Send a policy document as it is; the answer, whatever it says."""
        certificate, key = self.authority
        document = {
            "sandbox": self.name,
            "policy": dict(policy),
            "network": {
                "gateway": self.gateway,
                "proxy_port": self.proxy_port,
                "upstream_dns": list(upstream_dns),
            },
            "ca": {"certificate": certificate, "key": key},
            "trusted_cas": list(trusted_cas),
            "secrets": dict(secrets or {}),
        }
        text = json.dumps(document)
        if unless_live and text == self.in_force:
            return {"ok": True}
        done = self.control("apply", text=text)
        if not done.stdout:
            return {"stderr": done.stderr}
        answer = dict(json.loads(done.stdout.splitlines()[-1]))
        self.in_force = text if answer.get("ok") else None
        return answer

    def status(self) -> dict[str, Any]:
        """The answer of ``abox-gateway status``."""
        return dict(json.loads(self.control("status").stdout))

    def wait_until_ready(self) -> None:
        """Wait until the pod serves the health name."""
        done = self.control("ready", "--timeout", str(READY_S), check=False)
        if done.code != 0:
            raise AssertionError(f"{done.stderr}\n{self.logs()}")

    def control(self, *command: str, text: str = "", check: bool = False) -> host.Completed:
        """Run ``abox-gateway`` in control."""
        return self.exec("control", "abox-gateway", *command, text=text, check=check)

    def exec(self, role: str, *command: str, text: str = "", check: bool = True) -> host.Completed:
        """Run a command in a container, after which nobody knows what is in force."""
        self.in_force = None
        args = ["docker", "exec", "-i", self._named(role), *command]
        return host.run(args, text=text, check=check)

    def logs(self, *roles: str) -> str:
        """What the containers printed."""
        parts = []
        for role in roles or ("control", "dns", "proxy"):
            done = host.run(["docker", "logs", self._named(role)], check=False)
            parts.append(f"== {role}\n{done.stdout[-1500:]}{done.stderr[-1500:]}")
        return "\n".join(parts)

    @property
    def pid(self) -> int:
        """A process in the pod's network namespace, as the host counts."""
        done = host.run(["docker", "inspect", "-f", "{{.State.Pid}}", self._named("pause")])
        return int(done.stdout)

    def _named(self, part: str) -> str:
        return f"{self.name}-{part}"

    def _add_network(self, bridge: str, subnet: IPv4Network, *, internal: bool) -> None:
        gateway = str(subnet.network_address + 1)
        options = {
            "com.docker.network.bridge.name": bridge,
            "com.docker.network.bridge.enable_ip_masquerade": "false" if internal else "true",
        }
        _docker(
            *("network", "create", "--subnet", str(subnet), "--gateway", gateway),
            *(["--internal"] if internal else []),
            *[f"--opt={key}={value}" for key, value in options.items()],
            bridge,
        )

    def _run(self, spec: pod.PodContainer) -> str:
        joined = self._named("pause")
        network = (
            ["--network", self.bridges[0], "--ip", self.gateway]
            if spec.role == "pause"
            else ["--network", f"container:{joined}"]
        )
        args = ["run", "-d", "--name", self._named(spec.role), *network, "--read-only"]
        args += ["--cap-drop", "ALL", "--security-opt", "no-new-privileges"]
        args += ["--restart", "unless-stopped", "--user", spec.user]
        args += [f"--memory={spec.memory_mb}m", f"--memory-swap={spec.memory_mb}m"]
        args += [f"--pids-limit={spec.pids_limit}", f"--stop-timeout={spec.stop_timeout_s}"]
        args += [f"--env={key}={value}" for key, value in spec.env.items()]
        args += [f"--tmpfs={target}:{options}" for target, options in spec.tmpfs.items()]
        args += [f"--sysctl={key}={value}" for key, value in spec.sysctls.items()]
        for mount in spec.mounts:
            mode = ":ro" if mount.read_only else ""
            logs = mount.volume == pod.LOG_FOLDER
            source = str(self.log_folder) if logs else self._named(mount.volume)
            args.append(f"--volume={source}:{mount.target}{mode}")
        if os.environ.get(LIVE_CODE) == "1":
            args += [f"--volume={host.ROOT}/{n}:/opt/abox/lib/{n}:ro" for n in ("abox", "gateway")]
        # By id: a tag is shared by all checkouts of this machine.
        image = read_image_ids(host.ROOT)["gateway"]
        return _docker(*args, image, *spec.command).strip()


def _docker(*args: str) -> str:
    return host.run(["docker", *args]).stdout
