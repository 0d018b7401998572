"""The policy that is live in the gateway pod, pushed into ``control`` and read back from it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import docker.errors

from abox.allowlist import Policy
from abox.errors import AboxError, HostError
from abox.secrets import combined_hash, digests, parse_secrets
from provider.certificate_authority import fingerprint
from provider.engine import Engine, ExecResult
from provider.host import docker_errors
from provider.resource import UNKNOWN, Data, Failure, Field, Resource, is_unknown

APPLY_TIMEOUT_S = 60
"""Seconds in which the pod must have a policy live."""
STATUS_TIMEOUT_S = 10
"""Seconds in which the pod must say what is live."""
START_TIMEOUT_S = 15
"""Seconds in which ``control`` must be running."""

_POLL_S = 0.2


@dataclass(frozen=True, kw_only=True)
class Live:
    """What the pod says about itself; all empty if it can't say anything."""

    policy_hash: str = ""
    """Recomputed by the pod from what Envoy and Unbound have loaded."""
    ca_fingerprint: str = ""
    trust_sha256: str = ""
    """Digest of the agent's bundle of trusted certificates."""

    @classmethod
    def from_answer(cls, answer: Mapping[str, Any]) -> Live:
        """What an answer of ``control`` says; empty where it says nothing sensible."""
        known = {field.name: answer.get(field.name) for field in fields(cls)}
        return cls(**{name: value for name, value in known.items() if isinstance(value, str)})


@dataclass(frozen=True)
class Gateway:
    """The pod's ``control``, by the id of its container."""

    container: str
    engine: Callable[[], Engine]

    def status(self) -> Live:
        """What is live; empty if ``control`` is gone, doesn't run or gives no sensible answer."""
        with docker_errors("ask the gateway for its policy"):
            engine = self.engine()
            if not _running(engine, self.container):
                return Live()
            try:
                result = engine.exec_with_input(
                    self.container,
                    ["abox-gateway", "status"],
                    stdin=b"",
                    timeout_s=STATUS_TIMEOUT_S,
                )
            except (docker.errors.APIError, TimeoutError):
                return Live()  # it stopped or hangs: nothing is known to be live
        return Live.from_answer(_answer(result) or {})

    def apply(self, document: dict[str, Any]) -> Live:
        """Make ``document`` live and return what is live then.

        Raises:
            HostError: ``control`` doesn't run or gives no answer.
            AboxError: the pod refuses the document; in its own words.
        """
        with docker_errors("push the policy into the gateway"):
            engine = self.engine()
            self._wait_until_running(engine)
            result = engine.exec_with_input(
                self.container,
                ["abox-gateway", "apply"],
                stdin=json.dumps(document).encode(),
                timeout_s=APPLY_TIMEOUT_S,
            )
        answer = _answer(result)
        if answer is None:
            raise HostError(
                what="the gateway didn't take the policy",
                why=f"`abox-gateway apply` ended with exit code {result.exit_code}: "
                f"{_last_words(result)}",
                remedy=f"look at `docker logs {self.container[:12]}`",
            )
        if answer.get("ok") is not True:
            error = answer.get("error")
            raise AboxError.from_document(error if isinstance(error, dict) else {})
        return Live.from_answer(answer)

    def _wait_until_running(self, engine: Engine) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while not _running(engine, self.container):
            if time.monotonic() > deadline:
                raise HostError(
                    what=f"control ({self.container[:12]}) doesn't take a policy",
                    why=f"its container doesn't run, {START_TIMEOUT_S} s after it was started",
                    remedy=f"look at `docker logs {self.container[:12]}`",
                )
            time.sleep(_POLL_S)


def _running(engine: Engine, container: str) -> bool:
    found = engine.find_container(container)
    state = found["State"] if found else {}
    return bool(state.get("Running")) and not state.get("Paused") and not state.get("Restarting")


def _answer(result: ExecResult) -> dict[str, Any] | None:
    """The JSON object on the last line of the output, None if there is none."""
    lines = result.stdout.decode(errors="replace").strip().splitlines()
    try:
        answer = json.loads(lines[-1]) if lines else None
    except ValueError:
        return None
    return answer if isinstance(answer, dict) else None


def _last_words(result: ExecResult) -> str:
    lines = (result.stderr + result.stdout).decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else "no message"


def gateway_document(inputs: Data) -> dict[str, Any]:
    """What ``control`` is told, from the resource's inputs."""
    return {
        "sandbox": inputs["sandbox"],
        "policy": inputs["policy"],
        "network": {
            "gateway": inputs["gateway"],
            "proxy_port": inputs["proxy_port"],
            "upstream_dns": inputs["upstream_dns"],
        },
        "ca": {"certificate": inputs["ca_certificate"], "key": inputs["ca_key"]},
        "trusted_cas": inputs["trusted_cas"],
        "secrets": inputs["secrets"],
    }


class GatewayPolicyResource(Resource):
    """Adapter of ``Gateway``."""

    type_name = "GatewayPolicy"
    fields = (
        Field(name="container", kind=str),
        Field(name="sandbox", kind=str, replaces=True),
        Field(name="policy", kind=dict),
        Field(name="gateway", kind=str),
        Field(name="proxy_port", kind=int),
        Field(name="upstream_dns", kind=list),
        Field(name="trusted_cas", kind=list),
        Field(name="ca_certificate", kind=str),
        Field(name="ca_key", kind=str, secret=True),
        Field(name="secrets", kind=dict, secret=True),
    )
    drift_fields: ClassVar = ("live_hash", "live_ca", "live_trust")

    def __init__(self, engine: Callable[[], Engine]) -> None:
        self._engine = engine

    def problems(self, inputs: Data, old: Data) -> Iterator[Failure]:  # noqa: ARG002
        """A document that isn't a policy, or secrets that aren't what it injects."""
        if is_unknown(inputs["policy"]):
            return
        try:
            policy = Policy.from_document(inputs["policy"])
        except AboxError as error:
            yield Failure("policy", str(error))
            return
        secrets = inputs["secrets"]
        if not is_unknown(secrets) and set(secrets) != set(policy.secret_names):
            yield Failure(
                "secrets", f"they must be exactly {', '.join(policy.secret_names) or '{}'}"
            )

    def drift(self, state: Data, inputs: Data) -> dict[str, bool]:  # noqa: ARG002
        """Anything live that isn't what was applied."""
        pairs = {"live_hash": "policy_hash", "live_ca": "ca_fingerprint", "live_trust": "trust"}
        return {live: False for live, asked in pairs.items() if state.get(live) != state.get(asked)}

    def planned(self, inputs: Data, old: Data | None) -> Data:
        """Hashes are known as soon as the policy and the authority are."""
        asked = _asked(inputs)
        unchanged = old is not None and all(
            old.get(name) == inputs[name] for name in ("ca_certificate", "trusted_cas")
        )
        trust = old["trust"] if old and unchanged else UNKNOWN
        return _outputs(asked, trust, Live(**asked, trust_sha256=trust))

    def create(self, inputs: Data) -> tuple[str, Data]:
        """Push the policy; returns when it is live."""
        return inputs["sandbox"], self._apply(inputs)

    def read(self, resource_id: str, state: Data) -> Data:  # noqa: ARG002
        """What is live beside what was applied; a dead pod has nothing live."""
        live = Gateway(state["container"], self._engine).status()
        asked = {name: state[name] for name in ("policy_hash", "ca_fingerprint")}
        return _outputs(asked, state["trust"], live)

    def update(self, resource_id: str, old: Data, new: Data) -> Data:  # noqa: ARG002
        """Push the policy again; returns when it is live."""
        return self._apply(new)

    def delete(self, resource_id: str, state: Data) -> None:
        """Nothing: the policy lives in the pod's volume and goes with it."""

    def _apply(self, inputs: Data) -> Data:
        asked = _asked(inputs)
        live = Gateway(inputs["container"], self._engine).apply(gateway_document(inputs))
        if (live.policy_hash, live.ca_fingerprint) != tuple(asked.values()):
            raise HostError(
                what="the gateway took the policy, but something else is live",
                why=f"asked for policy {asked['policy_hash'][:12]} and authority "
                f"{asked['ca_fingerprint'][:12]}, live are {live.policy_hash[:12] or 'nothing'} "
                f"and {live.ca_fingerprint[:12] or 'none'}",
                remedy=f"look at `docker logs {inputs['container'][:12]}`, then run again",
            )
        return _outputs(asked, live.trust_sha256, live)


def _asked(inputs: Data) -> dict[str, str]:
    certificate = inputs["ca_certificate"]
    return {
        "policy_hash": _policy_hash(inputs),
        "ca_fingerprint": UNKNOWN if is_unknown(certificate) else fingerprint(certificate),
    }


def _outputs(asked: dict[str, str], trust: str, live: Live) -> Data:
    return {
        **asked,
        "trust": trust,
        "live_hash": live.policy_hash,
        "live_ca": live.ca_fingerprint,
        "live_trust": live.trust_sha256,
    }


def _policy_hash(inputs: Data) -> str:
    """Hash of the policy with the values that it injects; these are keyed by the authority."""
    policy, secrets, key = inputs["policy"], inputs["secrets"], inputs["ca_key"]
    if is_unknown(policy) or is_unknown(secrets) or (secrets and is_unknown(key)):
        return UNKNOWN
    found = digests(parse_secrets(secrets, "secrets"), key) if secrets else {}
    return combined_hash(Policy.from_document(policy).hash, found)
