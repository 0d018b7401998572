"""Settings: everything that is refused is told in one run, with file, key, reason and remedy."""

import datetime
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from abox.agent_environment import RESERVED
from abox.allowlist import Mode
from abox.errors import AboxErrors, SettingsError
from abox.settings import AgentSettings, Settings, parse_settings

ROOT = Path(__file__).parents[3]
WHERE = "stacks/Pulumi.project-a.yaml: abox:sandbox"
DIGEST = "sha256:" + "0123456789abcdef" * 4


def parse(**settings: Any) -> Settings:
    return parse_settings("project-a", {"allow": ["a.test"], **settings})


def parse_agent(**agent: Any) -> AgentSettings:
    return parse(agent=agent).agent


def refused(**settings: Any) -> list[Any]:
    with pytest.raises(AboxErrors) as caught:
        parse(**settings)
    assert all(isinstance(error, SettingsError) for error in caught.value.errors)
    assert all(error.why and error.remedy for error in caught.value.errors)
    return list(caught.value.errors)


def a_certificate() -> str:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    start = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    builder = x509.CertificateBuilder(
        name, name, key.public_key(), 1, start, start.replace(year=2036)
    )
    signed = builder.sign(key, hashes.SHA256())
    return signed.public_bytes(serialization.Encoding.PEM).decode()


def test_an_empty_configuration_is_a_sandbox_that_reaches_nothing() -> None:
    settings = parse_settings("project-a", {})
    assert settings.sandbox == "project-a"
    assert settings.backend == "container"
    assert settings.policy.entries == ()
    assert settings.policy.mode is Mode.ACTIVE
    assert settings.policy.tls_interception is True
    assert settings.proxy_port == 8080
    assert settings.upstream_dns == ()
    assert settings.subnet == "auto"
    assert settings.agent == AgentSettings()


def test_every_key_arrives() -> None:
    pem = a_certificate()
    settings = parse(
        backend="container",
        mode="passive",
        passive_acknowledged=True,
        deny=["b.test"],
        allow_private_cidrs=["198.51.100.0/24", "2001:db8::/32"],
        tls_interception=False,
        proxy_port=3128,
        upstream_dns=["198.51.100.53", "10.0.0.2", "198.51.100.53"],
        trusted_cas=[pem],
        subnet="10.10.7.0/24",
        agent={
            "image": f"registry.example/agent:1@{DIGEST}",
            "command": ["sleep", "infinity"],
            "user": "1000:1000",
            "cpus": 0.5,
            "memory_mb": 512,
            "pids_limit": 256,
            "workspace": "/srv/project",
            "mounts": [{"source": "/srv/data", "target": "/data"}],
            "env": {"MY_SETTING": "x"},
        },
    )
    assert settings.policy.mode is Mode.PASSIVE
    assert settings.policy.passive_acknowledged
    assert settings.policy.deny == ("b.test",)
    assert len(settings.policy.allow_private_cidrs) == 2
    assert not settings.policy.tls_interception
    assert settings.proxy_port == 3128
    assert settings.upstream_dns == (IPv4Address("198.51.100.53"), IPv4Address("10.0.0.2"))
    assert settings.trusted_cas == (pem,)
    assert settings.subnet == "10.10.7.0/24"
    assert settings.agent.command == ("sleep", "infinity")
    assert settings.agent.cpus == 0.5
    assert settings.agent.mounts[0].read_only
    assert settings.agent.env == {"MY_SETTING": "x"}


@pytest.mark.parametrize(
    "file", sorted((ROOT / "stacks").glob("Pulumi.*.yaml")), ids=lambda p: p.name
)
def test_the_stacks_of_the_project_are_valid(file: Path) -> None:
    raw = yaml.safe_load(file.read_text())["config"]["abox:sandbox"]
    assert parse_settings(file.name.split(".")[1], raw).policy.entries


@pytest.mark.parametrize(
    ("raw", "key"),
    [
        ({"alow": ["a.test"]}, "alow"),
        ({"allow": "allowed.test"}, "allow"),
        ({"deny": "x"}, "deny"),
        ({"allow": ["a.test", "*"]}, "allow[1]"),
        ({"deny": [7]}, "deny[0]"),
        ({"allow_private_cidrs": ["10.0.0.5/8"]}, "allow_private_cidrs[0]"),
        ({"mode": "open"}, "mode"),
        ({"passive_acknowledged": "yes"}, "passive_acknowledged"),
        ({"tls_interception": 1}, "tls_interception"),
        ({"backend": "podman"}, "backend"),
        ({"backend": None}, "backend"),
        ({"vm": {"cpus": 4}}, "vm.cpus"),
        ({"monitor": {"enabled": True}}, "monitor.enabled"),
        ({"backend": "vm", "monitor": {"enabled": 1}}, "monitor.enabled"),
        ({"backend": "vm", "monitor": {"enable": True}}, "monitor.enable"),
        ({"backend": "vm", "monitor": True}, "monitor"),
        (
            {
                "backend": "vm",
                "monitor": {"enabled": True},
                "vm": {"domain_template": "<domain type='kvm'/>"},
            },
            "monitor.enabled",
        ),
        ({"backend": "vm", "agent": {"cpus": 1}}, "agent.cpus"),
        ({"backend": "vm", "agent": {"env": {"A": "b"}}}, "agent.env"),
        ({"backend": "vm", "vm": {"mac": "52-54-00-12-34-56"}}, "vm.mac"),
        ({"backend": "vm", "vm": {"memory_mb": 255}}, "vm.memory_mb"),
        ({"backend": "vm", "vm": {"memory_mb": "1024"}}, "vm.memory_mb"),
        ({"backend": "vm", "vm": {"cpus": 0}}, "vm.cpus"),
        ({"backend": "vm", "vm": {"cpus": 0.5}}, "vm.cpus"),
        ({"backend": "vm", "vm": {"disk_gb": 0}}, "vm.disk_gb"),
        ({"backend": "vm", "vm": {"image": "/disk.qcow2"}}, "vm.image"),
        ({"backend": "vm", "vm": {"image": "disk.qcow2@" + DIGEST}}, "vm.image"),
        ({"backend": "vm", "vm": {"user": "root"}}, "vm.user"),
        ({"backend": "vm", "vm": {"domain_template": "<domain>"}}, "vm.domain_template"),
        ({"backend": "vm", "vm": {"packages": ["jq; rm"]}}, "vm.packages[0]"),
        ({"backend": "vm", "vm": {"files": [{"path": "x", "content": ""}]}}, "vm.files[0].path"),
        ({"backend": "vm", "vm": {"commands": [""]}}, "vm.commands[0]"),
        ({"backend": "vm", "vm": {"ssh_key": "x"}}, "vm.ssh_key"),
        ({"proxy_port": 0}, "proxy_port"),
        ({"proxy_port": 70000}, "proxy_port"),
        ({"proxy_port": 53}, "proxy_port"),
        ({"proxy_port": "8080"}, "proxy_port"),
        ({"proxy_port": True}, "proxy_port"),
        ({"proxy_port": 8080.5}, "proxy_port"),
        ({"proxy_port": None}, "proxy_port"),
        ({"upstream_dns": "10.0.0.2"}, "upstream_dns"),
        ({"upstream_dns": ["dns.test"]}, "upstream_dns[0]"),
        ({"upstream_dns": ["127.0.0.53"]}, "upstream_dns[0]"),
        ({"upstream_dns": ["10.0.0.2", "0.0.0.0"]}, "upstream_dns[1]"),
        ({"upstream_dns": ["224.0.0.1"]}, "upstream_dns[0]"),
        ({"upstream_dns": ["fd00::53"]}, "upstream_dns[0]"),
        ({"upstream_dns": [167772162]}, "upstream_dns[0]"),
        ({"trusted_cas": "x"}, "trusted_cas"),
        ({"trusted_cas": ["x"]}, "trusted_cas[0]"),
        ({"trusted_cas": [7]}, "trusted_cas[0]"),
        ({"subnet": "10.10.0.0/16"}, "subnet"),
        ({"subnet": "10.10.7.1/24"}, "subnet"),
        ({"subnet": "10.10.7.0/255.255.255.0"}, "subnet"),
        ({"subnet": "10.11.7.0/24"}, "subnet"),
        ({"subnet": "192.168.7.0/24"}, "subnet"),
        ({"subnet": "Auto"}, "subnet"),
        ({"subnet": ""}, "subnet"),
        ({"subnet": 7}, "subnet"),
        ({"agent": None}, "agent"),
        ({"agent": []}, "agent"),
        ({"agent": {"cpu": 2}}, "agent.cpu"),
        ({"agent": {"image": "agent:latest"}}, "agent.image"),
        ({"agent": {"image": "agent"}}, "agent.image"),
        ({"agent": {"image": DIGEST[:-1]}}, "agent.image"),
        ({"agent": {"image": DIGEST.upper()}}, "agent.image"),
        ({"agent": {"image": DIGEST + "\n"}}, "agent.image"),
        ({"agent": {"image": f"-x@{DIGEST}"}}, "agent.image"),
        ({"agent": {"image": f"a b@{DIGEST}"}}, "agent.image"),
        ({"agent": {"command": "ls"}}, "agent.command"),
        ({"agent": {"command": ["ls", 7]}}, "agent.command[1]"),
        ({"agent": {"command": ["a\x00b"]}}, "agent.command[0]"),
        ({"agent": {"user": "root"}}, "agent.user"),
        ({"agent": {"user": "0"}}, "agent.user"),
        ({"agent": {"user": "00:1000"}}, "agent.user"),
        ({"agent": {"user": "root:1000"}}, "agent.user"),
        ({"agent": {"user": "4294967296"}}, "agent.user"),
        ({"agent": {"user": "1000:1000:1"}}, "agent.user"),
        ({"agent": {"user": "agent\n"}}, "agent.user"),
        ({"agent": {"user": 1000}}, "agent.user"),
        ({"agent": {"cpus": 0}}, "agent.cpus"),
        ({"agent": {"cpus": "2"}}, "agent.cpus"),
        ({"agent": {"cpus": True}}, "agent.cpus"),
        ({"agent": {"cpus": float("nan")}}, "agent.cpus"),
        ({"agent": {"cpus": float("inf")}}, "agent.cpus"),
        ({"agent": {"cpus": 0.123456789}}, "agent.cpus"),
        ({"agent": {"memory_mb": 1}}, "agent.memory_mb"),
        ({"agent": {"memory_mb": "2g"}}, "agent.memory_mb"),
        ({"agent": {"memory_mb": 512.5}}, "agent.memory_mb"),
        ({"agent": {"pids_limit": 0}}, "agent.pids_limit"),
        ({"agent": {"pids_limit": -1}}, "agent.pids_limit"),
        ({"agent": {"workspace": "/"}}, "agent.workspace"),
        ({"agent": {"workspace": "project"}}, "agent.workspace"),
        ({"agent": {"mounts": {}}}, "agent.mounts"),
        ({"agent": {"mounts": ["/srv:/srv"]}}, "agent.mounts[0]"),
        ({"agent": {"mounts": [{"source": "/", "target": "/work"}]}}, "agent.mounts[0].source"),
        ({"agent": {"mounts": [{"source": "/var/run/docker.sock", "target": "/work"}]}},
         "agent.mounts[0].source"),
        ({"agent": {"mounts": [{"source": "/srv", "target": "/etc"}]}}, "agent.mounts[0].target"),
        ({"agent": {"mounts": [{"source": "/srv"}]}}, "agent.mounts[0].target"),
        ({"agent": {"mounts": [{"source": "/srv", "target": "/work", "ro": True}]}},
         "agent.mounts[0].ro"),
        ({"agent": {"mounts": [{"source": "/srv", "target": "/work", "read_only": "no"}]}},
         "agent.mounts[0].read_only"),
        ({"agent": {"mounts": [{"source": "/srv/a", "target": "/workspace"}]}},
         "agent.mounts[0].target"),
        ({"agent": {"mounts": [{"source": "/srv/a", "target": "/data"},
                               {"source": "/srv/b", "target": "/data/"}]}},
         "agent.mounts[1].target"),
        ({"agent": {"env": ["A=1"]}}, "agent.env"),
        ({"agent": {"env": {"A": 1}}}, "agent.env.A"),
        ({"agent": {"env": {"1A": "x"}}}, "agent.env.1A"),
        ({"agent": {"env": {"A B": "x"}}}, "agent.env.A B"),
        ({"agent": {"env": {"A": "x\x00y"}}}, "agent.env.A"),
        ({"agent": {"env": {"https_proxy": "x"}}}, "agent.env.https_proxy"),
        ({"agent": {"env": {"npm_config_cafile": "x"}}}, "agent.env.npm_config_cafile"),
    ],
    ids=str,
)  # fmt: skip
def test_what_is_refused_is_told_with_file_key_and_value(raw: dict[str, Any], key: str) -> None:
    with pytest.raises(AboxErrors) as caught:
        parse_settings("project-a", raw)
    assert [e.what.removeprefix(f"{WHERE}.").split(":")[0] for e in caught.value.errors] == [key]


@pytest.mark.parametrize("raw", [None, [], "x", 7, True], ids=repr)
def test_settings_that_are_no_mapping_are_refused(raw: object) -> None:
    with pytest.raises(AboxErrors, match="a mapping"):
        parse_settings("project-a", raw)


def test_all_errors_of_all_keys_come_in_one_run() -> None:
    errors = refused(
        allow=["ok.test", "*", "ok2.test", "10.0.0.1"],
        deny=["*"],
        proxy_port="x",
        subnet="x",
        alow=[],
        agent={"image": "x", "mounts": [{"source": "/srv/a", "target": "/a"}, {"source": "/"}]},
    )
    told = {error.what.removeprefix(f"{WHERE}.").split(":")[0] for error in errors}
    assert told == {
        "allow[1]", "allow[3]", "deny[0]", "proxy_port", "subnet", "alow", "agent.image",
        "agent.mounts[1].source", "agent.mounts[1].target",
    }  # fmt: skip


@pytest.mark.parametrize("name", ["../x", "1dev", "a b", "a.b", "", "dev\n"])
def test_a_bad_stack_name_is_told_beside_the_rest(name: str) -> None:
    with pytest.raises(AboxErrors) as caught:
        parse_settings(name, {"proxy_port": 0})
    assert "stack name" in caught.value.errors[0].what
    assert len(caught.value.errors) == 2
    assert len(str(caught.value.errors[0]).splitlines()) == 3


@pytest.mark.parametrize(
    ("raw", "meant"),
    [
        ({"alow": []}, "did you mean 'allow'?"),
        ({"allow_private_cidr": []}, "did you mean 'allow_private_cidrs'?"),
        ({"agent": {"memory": 1}}, "did you mean 'memory_mb'?"),
    ],
)
def test_an_unknown_key_names_the_nearest_and_lists_the_valid_ones(
    raw: dict[str, Any], meant: str
) -> None:
    (error,) = refused(**raw)
    assert error.remedy.startswith(meant)
    assert "valid keys:" in error.remedy


def test_the_section_of_the_other_backend_may_stand_with_its_defaults() -> None:
    """One setting is all that differs between a container and a VM."""
    one = parse(agent={"cpus": 2, "memory_mb": 2048, "pids_limit": 1024})
    other = parse(backend="vm", agent={"cpus": 2, "memory_mb": 2048, "pids_limit": 1024})
    assert one.policy.hash == other.policy.hash
    assert (one.backend, other.backend) == ("container", "vm")


@pytest.mark.parametrize("section", ["agent", "vm"])
def test_what_the_other_backend_alone_uses_names_the_way_out(section: str) -> None:
    backend = {"agent": "vm", "vm": "container"}[section]
    (error,) = refused(backend=backend, **{section: {"memory_mb": 1024}})
    assert f"{section}.memory_mb" in error.what
    assert f"the backend is {backend}" in error.why


def test_a_container_has_no_monitor_port() -> None:
    (error,) = refused(monitor={"enabled": True})
    assert error.what.endswith("monitor.enabled: it is refused")
    assert error.remedy == "remove it, or write backend: vm"
    assert parse(backend="vm", monitor={"enabled": True}).monitor.enabled
    assert not parse(monitor={"enabled": False}).monitor.enabled


def test_no_secret_is_repeated_in_an_error() -> None:
    pem = "-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n"
    errors = refused(
        trusted_cas=[pem], agent={"env": {"HTTP_PROXY": "s3cr3t", "1": "s3cr3t", "B": 4711}}
    )
    text = "\n".join(map(str, errors))
    assert len(errors) == 4
    for secret in ("c2VjcmV0", "s3cr3t", "4711"):
        assert secret not in text


INJECTING = {
    "allow": [{"host": "a.test", "inject": {"header": "Authorization", "secret": "api_key"}}]
}


def test_only_values_that_the_policy_injects_are_kept() -> None:
    settings = parse_settings("project-a", INJECTING, {"api_key": "s3cr3t", "spare": "0ther"})
    assert {name: value.reveal() for name, value in settings.secrets.items()} == {
        "api_key": "s3cr3t"
    }
    assert "s3cr3t" not in repr(settings)


def test_settings_with_secrets_can_be_judged_without_the_values() -> None:
    assert not parse_settings("project-a", INJECTING).secrets
    assert not parse_settings("project-a", INJECTING, secret_names=["api_key"]).secrets
    lacking: list[dict[str, Any]] = [
        {"secrets": {}}, {"secret_names": []}, {"secrets": {"other": "s3cr3t"}}
    ]  # fmt: skip
    for missing in lacking:
        with pytest.raises(AboxErrors, match="api_key") as caught:
            parse_settings("project-a", INJECTING, **missing)
        assert "pulumi config set --secret --path abox:secrets.api_key" in str(caught.value)


def test_secrets_that_can_be_read_in_the_file_are_refused_by_name_only() -> None:
    with pytest.raises(AboxErrors) as caught:
        parse_settings("project-a", {}, {"api_key": "s3cr3t"}, secrets_encrypted=False)
    assert "abox:secrets: api_key is refused" in caught.value.what
    assert "s3cr3t" not in str(caught.value)


def test_what_is_wrong_with_secrets_entries_and_the_rest_is_told_in_one_run() -> None:
    with pytest.raises(AboxErrors) as caught:
        parse_settings("1", {**INJECTING, "proxy_port": 0}, {"other": "s3cr3t\n"})
    places = [error.what for error in caught.value.errors]
    for place in ("other", "proxy_port", "allow[0].inject.secret"):
        assert any(place in what for what in places), places
    assert len(places) == 4
    assert "s3cr3t" not in str(caught.value)


@pytest.mark.parametrize("name", sorted(RESERVED))
def test_no_variable_of_proxy_or_trust_store_can_be_set(name: str) -> None:
    (error,) = refused(agent={"env": {name: "x"}})
    assert name in error.why


@pytest.mark.parametrize("cpus", [0.1, 0.5, 1, 2.0, 9, 15.5, 1024.0 - 0.5])
def test_cpus_that_the_engine_s_plugin_reads_back_unchanged_pass(cpus: float) -> None:
    assert parse_agent(cpus=cpus).cpus == cpus


@pytest.mark.parametrize("cpus", [10, 16.0])
def test_cpus_that_would_show_as_drift_for_ever_are_refused(cpus: float) -> None:
    (error,) = refused(agent={"cpus": cpus})
    assert "agent.cpus" in error.what


@pytest.mark.parametrize("image", ["", DIGEST, f"agent@{DIGEST}", f"r.example:5000/a/b:1@{DIGEST}"])
def test_an_image_by_digest_passes(image: str) -> None:
    assert parse_agent(image=image).image == image


@pytest.mark.parametrize("user", ["", "agent", "_apt", "1000", "1000:1000", "1000:0"])
def test_a_user_other_than_root_passes(user: str) -> None:
    assert parse_agent(user=user).user == user


def test_settings_can_not_be_changed_afterwards() -> None:
    settings = parse()
    with pytest.raises(AttributeError):
        settings.proxy_port = 1  # type: ignore[misc]
    with pytest.raises(ValueError, match="frozen"):
        settings.agent.cpus = 1  # type: ignore[misc]
