"""The stack's configuration: the key `abox:sandbox` of `stacks/Pulumi.<stack>.yaml`, validated.

Everything that can be refused is refused here, before anything is touched, and all of it in one
run. A key that isn't understood is an error: none is ever accepted and ignored.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network
from typing import Annotated, Any, TypeVar

from cryptography import x509
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from abox import vm_settings
from abox.addresses import SANDBOX_POOL, classify
from abox.agent_environment import RESERVED, TRUST_DIR
from abox.allowlist import Policy, parse_policy
from abox.entries import PORT_MAX
from abox.errors import AboxErrors, ErrorCollector, SettingsError
from abox.host_paths import check_source, check_target
from abox.injection import SECRETS_KEY, set_command
from abox.naming import check_name
from abox.query_budget import DEFAULT_QUERIES_PER_MINUTE
from abox.refusals import RefusedError, nearest, shown
from abox.secrets import Secrets, parse_secrets

KEY = "abox:sandbox"
"""Key of the stack's configuration that holds the settings."""

CONTAINER, VM = BACKENDS = ("container", "vm")
"""Values of `backend`: what the agent is."""

SECTIONS: Mapping[str, str] = {"agent": CONTAINER, "monitor": VM, "vm": VM}
"""Keys that only one backend has a use for."""

DEFAULT_PROXY_PORT = 8080

DNS_PORT = 53
"""Taken by the name filter on the gateway's address."""

AUTO = "auto"
"""Value of `subnet`: the provider leases a free one."""

CPUS_MIN, CPUS_MAX = 0.1, 1024.0
MEMORY_MB_MIN, MEMORY_MB_MAX = 64, 4 * 1024 * 1024
PIDS_MIN, PIDS_MAX = 16, 4_000_000
UID_MAX = 2**31 - 1
"""Largest user id that the container engine takes."""

_UNASKABLE = (
    "Limited Broadcast",
    "Loopback",
    "Multicast",
    "Reserved",
    "This host on this network",
    "This network",
)
"""Classes of addresses at which no resolver answers the gateway."""

_IMAGE = re.compile(r"(?:[a-z0-9][a-zA-Z0-9._:/-]{0,254}@)?sha256:[0-9a-f]{64}")
_USER = re.compile(r"[a-z_][a-z0-9_-]{0,31}|[0-9]{1,10}(?::[0-9]{1,10})?")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,254}")

_T = TypeVar("_T")
Items = Annotated[tuple[_T, ...], Field(strict=False)]
"""A list of the configuration, kept as a tuple; its members are as strict as anything else."""


def _check_backend(value: str) -> str:
    if value not in BACKENDS:
        raise RefusedError("it is no backend", f"write {' or '.join(BACKENDS)}")
    return value


def _check_proxy_port(value: int) -> int:
    if value == DNS_PORT:
        raise RefusedError(
            "the name filter has this port", f"choose another, for example {DEFAULT_PROXY_PORT}"
        )
    return value


def _parse_resolver(value: object) -> IPv4Address:
    remedy = "write the address of a resolver, or [] for the host's own"
    try:
        address = IPv4Address(value if isinstance(value, str) else "")
    except ValueError as error:
        raise RefusedError("it is no IPv4 address", remedy) from error
    kind = classify(address).name
    if kind in _UNASKABLE:
        raise RefusedError(f"the gateway can't reach it ({kind})", remedy)
    return address


def _parse_certificate(value: object) -> str:
    text = value if isinstance(value, str) else ""
    if "PRIVATE KEY" in text:
        raise RefusedError("it holds a private key", "give the certificate alone, and no key")
    try:
        x509.load_pem_x509_certificates(text.encode())
    except ValueError as error:
        raise RefusedError(
            "it is no certificate in PEM form",
            "give the text from -----BEGIN CERTIFICATE----- to -----END CERTIFICATE-----",
        ) from error
    return text


def _check_subnet(value: str) -> str:
    remedy = f"write {AUTO}, or a /24 of {SANDBOX_POOL}, for example 10.10.7.0/24"
    if value == AUTO:
        return value
    try:
        network = IPv4Network(value)
    except ValueError as error:
        raise RefusedError(f"it is no network: {error}", remedy) from error
    if network.prefixlen != 24 or not network.subnet_of(SANDBOX_POOL) or value != str(network):
        raise RefusedError(f"a sandbox has one /24 of {SANDBOX_POOL} of its own", remedy)
    return value


def _check_image(value: str) -> str:
    if value and not _IMAGE.fullmatch(value):
        raise RefusedError(
            "a tag can move after review, a digest can't",
            "write name@sha256:<64 hex digits> or sha256:<64 hex digits>",
        )
    return value


def _check_user(value: str) -> str:
    if not value:
        return value
    uid = value.split(":")[0]
    numbers = [int(number) for number in value.split(":") if number.isdigit()]
    if not _USER.fullmatch(value) or any(number > UID_MAX for number in numbers):
        raise RefusedError("it is no user", "write a name, an id, or id:group, such as 1000:1000")
    if uid == "root" or (uid.isdigit() and int(uid) == 0):
        raise RefusedError("the agent may not be root", "write for example 1000:1000")
    return value


def _check_argument(value: str) -> str:
    if "\0" in value:
        raise RefusedError("an argument holds no zero byte", "remove it")
    return value


def _check_cpus(value: float) -> float:
    if float(format(value, "g")) != value:
        raise RefusedError("it has more than six digits", "write for example 0.5")
    if value >= 10 and value.is_integer():
        raise RefusedError(
            "pulumi-docker 5.2.0 reads it back in another form and would replace the agent at "
            "every up",
            f"write {value - 0.5:g} or {value + 0.5:g}",
        )
    return value


def _check_workspace(value: str) -> str:
    return check_source(value) if value else value


def _check_variable(name: str) -> str:
    if not _VARIABLE.fullmatch(name):
        raise RefusedError(
            "a variable's name is letters, digits and '_', not beginning with a digit",
            "write for example MY_SETTING",
        )
    if name in RESERVED or name.upper() in RESERVED:
        raise RefusedError(
            f"{name} points the agent at the proxy or at the trust store",
            "remove it: the sandbox sets it",
        )
    return name


class _Strict(BaseModel):
    model_config = ConfigDict(
        strict=True, frozen=True, extra="forbid", allow_inf_nan=False, hide_input_in_errors=True
    )


class MountSettings(_Strict):
    """A folder of the host that the agent sees."""

    source: Annotated[str, AfterValidator(check_source)]
    target: Annotated[str, AfterValidator(check_target)]
    read_only: bool = True


class AgentSettings(_Strict):
    """The agent's container."""

    image: Annotated[str, AfterValidator(_check_image)] = ""
    """By digest; empty: the image that the project builds."""
    command: Items[Annotated[str, AfterValidator(_check_argument)]] = ()
    """What the container runs; empty: it waits for `abox exec` and `abox shell`."""
    user: Annotated[str, AfterValidator(_check_user)] = ""
    """Name, id, or id:group, never root; empty: the image's user for agents."""
    cpus: Annotated[float, Field(ge=CPUS_MIN, le=CPUS_MAX), AfterValidator(_check_cpus)] = 2.0
    memory_mb: Annotated[int, Field(ge=MEMORY_MB_MIN, le=MEMORY_MB_MAX)] = 2048
    pids_limit: Annotated[int, Field(ge=PIDS_MIN, le=PIDS_MAX)] = 1024
    workspace: Annotated[str, AfterValidator(_check_workspace)] = ""
    """Folder of the host at /workspace, writable; empty: a volume of its own."""
    mounts: Items[MountSettings] = ()
    env: dict[
        Annotated[str, AfterValidator(_check_variable)],
        Annotated[str, AfterValidator(_check_argument)],
    ] = Field(default_factory=dict)


class VmFileSettings(_Strict):
    """A file that the guest gets at its first boot."""

    path: Annotated[str, AfterValidator(vm_settings.check_path)]
    content: Annotated[str, AfterValidator(vm_settings.check_text)]
    mode: Annotated[str, AfterValidator(vm_settings.check_mode)] = "0644"
    owner: Annotated[str, AfterValidator(vm_settings.check_owner)] = "root:root"


class VmSettings(_Strict):
    """The agent as a virtual machine."""

    cpus: Annotated[int, Field(ge=vm_settings.CPUS_MIN, le=vm_settings.CPUS_MAX)] = 2
    memory_mb: Annotated[int, Field(ge=vm_settings.MEMORY_MB_MIN, le=vm_settings.MEMORY_MB_MAX)] = (
        2048
    )
    disk_gb: Annotated[int, Field(ge=vm_settings.DISK_GB_MIN, le=vm_settings.DISK_GB_MAX)] = 20
    """Size of the root disk, and of the workspace beside it."""
    image: Annotated[str, AfterValidator(vm_settings.check_image)] = ""
    """Path and digest; empty: the image that the project builds."""
    mac: Annotated[str, AfterValidator(vm_settings.check_mac)] = ""
    """Empty: one that follows from the sandbox's name."""
    user: Annotated[str, AfterValidator(vm_settings.check_user)] = vm_settings.USER
    ssh_key: Annotated[str, AfterValidator(vm_settings.check_ssh_key)] = ""
    """A public key that may log in besides the stack's own."""
    domain_template: Annotated[str, AfterValidator(vm_settings.check_template)] = ""
    """XML of a domain in the place of the hardened one."""
    packages: Items[Annotated[str, AfterValidator(vm_settings.check_package)]] = ()
    files: Items[VmFileSettings] = ()
    commands: Items[Annotated[str, AfterValidator(vm_settings.check_command)]] = ()
    """Shell commands that root runs at the end of the first boot."""


class MonitorSettings(_Strict):
    """The port by which sensors in a VM speak to the host."""

    enabled: bool = False


class _Document(_Strict):
    """The keys of the configuration; those of the policy are judged by `parse_policy`."""

    backend: Annotated[str, AfterValidator(_check_backend)] = BACKENDS[0]
    mode: Any = "active"
    passive_acknowledged: Any = False
    allow: Any = ()
    deny: Any = ()
    allow_private_cidrs: Any = ()
    tls_interception: Any = True
    dns_queries_per_minute: Any = DEFAULT_QUERIES_PER_MINUTE
    proxy_port: Annotated[int, Field(ge=1, le=PORT_MAX), AfterValidator(_check_proxy_port)] = (
        DEFAULT_PROXY_PORT
    )
    upstream_dns: Items[Annotated[IPv4Address, BeforeValidator(_parse_resolver)]] = ()
    trusted_cas: Items[Annotated[str, BeforeValidator(_parse_certificate)]] = ()
    subnet: Annotated[str, AfterValidator(_check_subnet)] = AUTO
    agent: AgentSettings = AgentSettings()
    vm: VmSettings = VmSettings()
    monitor: MonitorSettings = MonitorSettings()


POLICY_KEYS = (
    "allow",
    "deny",
    "mode",
    "allow_private_cidrs",
    "tls_interception",
    "dns_queries_per_minute",
    "passive_acknowledged",
)
"""Keys that together are the policy."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """A stack's configuration, completely validated."""

    sandbox: str
    """Name of the sandbox, which is the name of the stack."""
    policy: Policy
    """What the agent may reach."""
    backend: str = BACKENDS[0]
    proxy_port: int = DEFAULT_PROXY_PORT
    """TCP port of the forward proxy on the gateway's address."""
    upstream_dns: tuple[IPv4Address, ...] = ()
    """Resolvers of allowed names; empty: the host's own."""
    trusted_cas: tuple[str, ...] = ()
    """Authorities (PEM) that the proxy trusts for origins, besides the public ones."""
    subnet: str = AUTO
    """`auto`, or a /24 of the pool."""
    agent: AgentSettings = field(default_factory=AgentSettings)
    secrets: Secrets = field(default_factory=dict)
    """Values that the policy injects, and no others."""
    vm: VmSettings = field(default_factory=VmSettings)
    monitor: MonitorSettings = field(default_factory=MonitorSettings)


def settings_file(stack: str) -> str:
    """The file of a stack's configuration, relative to the project."""
    return f"stacks/Pulumi.{stack}.yaml"


def parse_settings(
    stack: str,
    raw: object,
    secrets: object = None,
    *,
    secrets_encrypted: bool = True,
    secret_names: Collection[str] | None = None,
) -> Settings:
    """The settings of a stack.

    Args:
        stack: name of the stack.
        raw: value of the key `abox:sandbox`, as read from JSON or YAML.
        secrets: value of the key `abox:secrets`, decrypted; None where it can't be read.
        secrets_encrypted: whether they are encrypted in the stack's file.
        secret_names: names below that key, where that is all that is known; None: not even that.

    Raises: AboxErrors with everything that is refused.
    """
    errors = ErrorCollector()
    where = f"{settings_file(stack)}: {KEY}"
    given = {} if secrets is None else secrets
    names = secret_names if secrets is None else _names_in(secrets)
    errors.attempt(lambda: check_name(stack))
    errors.attempt(lambda: _check_encrypted(stack, given, encrypted=secrets_encrypted))
    values = errors.attempt(lambda: parse_secrets(given, f"{settings_file(stack)}: {SECRETS_KEY}"))
    document = errors.attempt(lambda: _parse_document(raw, where))
    policy = errors.attempt(lambda: _parse_policy_keys(raw, where, names))
    errors.raise_all()
    if document is None or policy is None or values is None:  # pragma: no cover - raise_all raised
        raise AssertionError("an error was lost")
    return Settings(
        sandbox=stack,
        policy=policy,
        backend=document.backend,
        proxy_port=document.proxy_port,
        upstream_dns=tuple(dict.fromkeys(document.upstream_dns)),
        trusted_cas=document.trusted_cas,
        subnet=document.subnet,
        agent=document.agent,
        secrets={name: values[name] for name in policy.secret_names if name in values},
        vm=document.vm,
        monitor=document.monitor,
    )


def _check_encrypted(stack: str, secrets: object, *, encrypted: bool) -> None:
    if secrets and not encrypted:
        raise clear_secrets(stack, _names_in(secrets))


def clear_secrets(stack: str, names: Collection[str]) -> SettingsError:
    """The error for secrets that can be read in the stack's file."""
    return SettingsError(
        what=f"{settings_file(stack)}: {SECRETS_KEY}: {', '.join(names) or 'a value'} is refused",
        why="it stands in the file in the clear, where whoever has the file can read it",
        remedy=f"replace the value, and set it by {set_command(next(iter(names), 'api_key'))}",
    )


def _names_in(secrets: object) -> list[str]:
    return [str(name) for name in secrets] if isinstance(secrets, Mapping) else []


def _parse_policy_keys(
    raw: object, where: str, secret_names: Collection[str] | None
) -> Policy | None:
    """The policy; None if the settings are no mapping, which `_parse_document` tells."""
    if not isinstance(raw, Mapping):
        return None
    given = {key: raw[key] for key in POLICY_KEYS if key in raw}
    allow = given.pop("allow", ())
    return parse_policy(allow, **given, secret_names=secret_names, path=where)


def _parse_document(raw: object, where: str) -> _Document:
    if not isinstance(raw, Mapping):
        raise SettingsError(
            what=f"{where}: {shown(raw)} is refused",
            why="the settings are a mapping",
            remedy="write for example allow: [example.com]",
        )
    try:
        document = _Document.model_validate(dict(raw))
    except ValidationError as error:
        raise AboxErrors([_explain(detail, where) for detail in error.errors()]) from error
    errors = ErrorCollector()
    errors.attempt(lambda: _check_targets(document.agent, where))
    errors.attempt(lambda: _check_sections(document, where))
    errors.attempt(lambda: _check_monitor(document, where))
    errors.raise_all()
    return document


def _check_sections(document: _Document, where: str) -> None:
    """Refuse what the other backend alone has a use for; its defaults say nothing."""
    errors = ErrorCollector()
    for section, backend in SECTIONS.items():
        given: BaseModel = getattr(document, section)
        if document.backend == backend:
            continue
        for key, field_ in type(given).model_fields.items():
            if getattr(given, key) != field_.get_default(call_default_factory=True):
                errors.errors.append(
                    SettingsError(
                        what=f"{where}.{section}.{key}: it is refused",
                        why=f"the backend is {document.backend}, which has no use for it",
                        remedy=f"remove it, or write backend: {backend}",
                    )
                )
    errors.raise_all()


def _check_monitor(document: _Document, where: str) -> None:
    """Refuse a port that a domain of the user's own wouldn't have."""
    if document.monitor.enabled and document.vm.domain_template:
        raise SettingsError(
            what=f"{where}.monitor.enabled: it is refused",
            why="vm.domain_template says what devices the machine has, and not this port",
            remedy="remove one of the two",
        )


def _check_targets(agent: AgentSettings, where: str) -> None:
    taken = ["/workspace", "/home/agent", TRUST_DIR]
    errors = ErrorCollector()
    for position, mount in enumerate(agent.mounts):
        if mount.target in taken:
            errors.errors.append(
                SettingsError(
                    what=f"{where}.agent.mounts[{position}].target: {mount.target!r} is refused",
                    why="something is mounted there already",
                    remedy="choose another target; agent.workspace sets the folder at /workspace",
                )
            )
        taken.append(mount.target)
    errors.raise_all()


_MODELS: tuple[tuple[tuple[str, ...], type[BaseModel]], ...] = (
    ((), _Document),
    (("agent",), AgentSettings),
    (("agent", "mounts"), MountSettings),
    (("vm",), VmSettings),
    (("vm", "files"), VmFileSettings),
    (("monitor",), MonitorSettings),
)

_UNSHOWN = (
    ("trusted_cas",),
    ("agent", "env"),
    ("vm", "ssh_key"),
    ("vm", "files", "content"),
    ("vm", "commands"),
)
"""Where values may be secret by mistake or on purpose: no error text repeats them."""

_ADVICE = {
    "bool_type": ("this is a switch", "write true or false"),
    "dict_type": ("a mapping belongs here", "write key: value, one a line"),
    "finite_number": ("it is no finite number", "write a number"),
    "float_type": ("a number belongs here", "write it without quotes, for example 0.5"),
    "greater_than_equal": ("it is less than {ge}", "write {ge} or more"),
    "invalid_key": ("a key is text", "put it in quotes"),
    "int_from_float": ("a whole number belongs here", "write it without a fraction"),
    "int_type": ("a whole number belongs here", "write it without quotes"),
    "less_than_equal": ("it is more than {le}", "write {le} or less"),
    "missing": ("the key is missing", "add it"),
    "model_type": ("a mapping belongs here", "write key: value, one a line"),
    "string_type": ("text belongs here", "put it in quotes"),
    "tuple_type": ("a list belongs here", "write - and a value, one a line"),
}
"""Why and remedy by the type of pydantic's error."""


def _explain(detail: ErrorDetails, where: str) -> SettingsError:
    # A key of a mapping that is refused comes as (..., key, "[key]").
    location = tuple(part for part in detail["loc"] if part != "[key]")
    what = where + "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in location)
    names = tuple(part for part in location if isinstance(part, str))
    if detail["type"] == "extra_forbidden":
        why, remedy = _explain_unknown(names)
        return SettingsError(what=f"{what}: the key is unknown", why=why, remedy=remedy)
    why, remedy = _advise(detail)
    hidden = any(names[: len(prefix)] == prefix for prefix in _UNSHOWN)
    value = "" if hidden or detail["type"] == "missing" else f" {shown(detail['input'])}"
    return SettingsError(what=f"{what}:{value} is refused", why=why, remedy=remedy)


def _explain_unknown(names: tuple[str, ...]) -> tuple[str, str]:
    key = names[-1]
    valid = next(list(model.model_fields) for at, model in _MODELS if at == names[:-1])
    return "a key that isn't understood is never ignored", nearest(key, valid)


def _advise(detail: ErrorDetails) -> tuple[str, str]:
    context = detail.get("ctx", {})
    if isinstance(refused := context.get("error"), RefusedError):
        return refused.why, refused.remedy
    why, remedy = _ADVICE.get(detail["type"], (detail["msg"], "correct the value"))
    return why.format(**context), remedy.format(**context)
