"""What is live in the pod, for the stack's read-back."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

from abox.render.paths import TRUST_DIR
from gateway.applied import read_applied
from gateway.apply import CERTIFICATE_FILE, KEY_FILE
from gateway.authority import Authority
from gateway.files import read_file
from gateway.live import authority_findings, dns_findings, proxy_findings, secret_findings
from gateway.trust import trust_sha256


@dataclass(frozen=True, kw_only=True)
class Status:
    """What is live."""

    policy_hash: str
    """Hash of the policy that dns and proxy have in force; empty if they differ from it."""
    ca_fingerprint: str
    """SHA-256 of the authority; empty if there is none or it doesn't fit its key."""
    trust_sha256: str
    """SHA-256 of the trust store that the agent sees."""
    dns: bool
    proxy: bool
    findings: tuple[str, ...]
    """In words, what is not as it was applied."""

    def to_document(self) -> dict[str, Any]:
        """The status as a JSON object."""
        return asdict(self)


def read_status(gateway: IPv4Address) -> Status:
    """The status of the pod."""
    applied = read_applied()
    plan = applied.plan if applied else None
    dns = dns_findings(plan, gateway) if plan else []
    proxy = proxy_findings(applied.plan, applied.gates) if applied else []
    if plan:
        proxy += [*secret_findings(plan, _key()), *authority_findings(plan)]
    live = plan is not None and not dns and not proxy
    return Status(
        policy_hash=plan.policy_hash if plan and live else "",
        ca_fingerprint=_fingerprint(),
        trust_sha256=trust_sha256(Path(TRUST_DIR)),
        dns=plan is not None and not dns,
        proxy=plan is not None and not proxy,
        findings=tuple(str(finding) for finding in (*dns, *proxy)),
    )


def _key() -> str:
    return (read_file(KEY_FILE) or b"").decode()


def _fingerprint() -> str:
    certificate, key = read_file(CERTIFICATE_FILE), read_file(KEY_FILE)
    try:
        return Authority.from_pem(certificate or b"", key or b"").fingerprint
    except ValueError:
        return ""
