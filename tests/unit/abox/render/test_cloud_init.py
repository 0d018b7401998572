"""cloud-init's documents: what a guest is told, and that no value becomes anything but a value."""

from __future__ import annotations

import base64
import re
from dataclasses import replace
from ipaddress import IPv4Interface
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from abox.agent_environment import BUNDLE, JAVA_TRUST_STORE, agent_environment
from abox.render.cloud_init import (
    GuestFile,
    GuestSpec,
    instance_id,
    render_meta_data,
    render_network_config,
    render_seed,
    render_user_data,
    sensor_files,
)
from abox.render.heartbeat import SCRIPT_PATH, UNIT, UNIT_PATH
from abox.render.java_keystore import render_java_keystore

PROXY = "http://10.10.3.2:8080"
SPEC = GuestSpec(
    sandbox="my_project",
    user="agent",
    authorized_keys=("ssh-ed25519 AAAA one", "ssh-ed25519 BBBB two"),
    host_key="-----BEGIN OPENSSH PRIVATE KEY-----\nabc\n-----END OPENSSH PRIVATE KEY-----\n",
    host_key_public="ssh-ed25519 CCCC",
    mac="52:54:00:AB:CD:EF",
    address=IPv4Interface("10.10.3.10/24"),
    gateway="10.10.3.2",
    proxy_url=PROXY,
    ca_certificate="-----BEGIN CERTIFICATE-----\nYWJj\n-----END CERTIFICATE-----\n",
)


def user_data(spec: GuestSpec) -> dict[str, Any]:
    text = render_user_data(spec)
    assert text.startswith("#cloud-config\n")
    document = yaml.safe_load(text)
    assert isinstance(document, dict)
    return document


def files(spec: GuestSpec) -> dict[str, str]:
    return {each["path"]: each["content"] for each in user_data(spec)["write_files"]}


def test_the_network_is_static_and_leads_to_the_gateway_alone() -> None:
    assert yaml.safe_load(render_network_config(SPEC)) == {
        "version": 2,
        "ethernets": {
            "eth0": {
                "match": {"macaddress": "52:54:00:ab:cd:ef"},
                "set-name": "eth0",
                "dhcp4": False,
                "dhcp6": False,
                "accept-ra": False,
                "addresses": ["10.10.3.10/24"],
                "nameservers": {"addresses": ["10.10.3.2"], "search": []},
            }
        },
    }


def test_the_host_key_is_the_stacks_and_no_other_is_made() -> None:
    document = user_data(SPEC)
    assert document["ssh_keys"] == {
        "ed25519_private": SPEC.host_key,
        "ed25519_public": SPEC.host_key_public,
    }
    assert document["ssh_genkeytypes"] == []
    assert document["ssh_deletekeys"] is True
    assert (
        "HostKey /etc/ssh/ssh_host_ed25519_key\n"
        in files(SPEC)["/etc/ssh/sshd_config.d/50-abox.conf"]
    )


def test_nobody_logs_in_with_a_password_or_as_root() -> None:
    document = user_data(SPEC)
    assert document["ssh_pwauth"] is False
    assert document["disable_root"] is True
    (user,) = document["users"]
    assert user["hashed_passwd"] == "*"
    assert user["ssh_authorized_keys"] == list(SPEC.authorized_keys)


@pytest.mark.parametrize(
    ("path", "form"),
    [
        ("/etc/environment", '{}="{}"\n'),
        ("/etc/profile.d/abox-proxy.sh", "export {}='{}'\n"),
        ("/etc/ssh/sshd_config.d/50-abox.conf", '"{}={}"'),
        ("/etc/systemd/system.conf.d/50-abox.conf", '"{}={}"'),
        ("/etc/systemd/user.conf.d/50-abox.conf", '"{}={}"'),
    ],
)
def test_every_login_and_service_is_told_proxy_and_trust(path: str, form: str) -> None:
    content = files(SPEC)[path]
    for name, value in agent_environment(PROXY).items():
        assert form.format(name, value) in content


def test_in_the_built_image_the_boot_script_has_made_the_trust_stores() -> None:
    """Debian's own program takes an emulated processor minutes."""
    document = user_data(SPEC)
    written = {file["path"]: file["content"] for file in document["write_files"]}
    assert written["/etc/ssl/certs/abox-ca.pem"] == SPEC.ca_certificate
    assert not {BUNDLE, JAVA_TRUST_STORE} & written.keys()
    assert "update-ca-certificates" not in str(document)
    assert "ca_certs" not in document


def test_java_finds_the_authorities_in_its_own_form() -> None:
    other = SPEC.ca_certificate.replace("YWJj", "ZGVm")
    told = replace(SPEC, trusted_cas=(other,), prepared=False)
    (store,) = [f for f in user_data(told)["write_files"] if f.get("encoding") == "b64"]
    assert store["path"] == JAVA_TRUST_STORE
    assert base64.b64decode(store["content"]) == render_java_keystore(other + SPEC.ca_certificate)


def test_the_stacks_further_authorities_are_trusted_as_well() -> None:
    other = SPEC.ca_certificate.replace("YWJj", "ZGVm")
    own = user_data(replace(SPEC, trusted_cas=(other,), prepared=False))
    assert own["ca_certs"] == {"trusted": [other, SPEC.ca_certificate]}


def test_in_an_image_of_the_users_own_its_distribution_decides_how_to_trust() -> None:
    document = user_data(replace(SPEC, prepared=False))
    assert document["ca_certs"] == {"trusted": [SPEC.ca_certificate]}
    assert not any(file.get("append") for file in document["write_files"])
    assert files(SPEC)["/etc/ssl/certs/abox-ca.pem"] == SPEC.ca_certificate


def test_the_workspace_is_made_once_and_never_over_what_is_there() -> None:
    ((shell, flag, script),) = user_data(SPEC)["bootcmd"]
    assert (shell, flag) == ("sh", "-c")
    assert script.startswith("blkid /dev/vdb >/dev/null || mkfs.ext4 ")
    assert script.endswith("mount -o nodev,nosuid /dev/vdb /workspace")


def test_the_users_own_packages_files_and_commands_come_last() -> None:
    own = replace(
        SPEC,
        packages=("jq",),
        files=(GuestFile(path="/etc/motd", content="hello\n", owner="agent:agent"),),
        commands=("echo done",),
        extra_commands=("echo sandbox",),
    )
    document = user_data(own)
    assert document["packages"] == ["jq"]
    assert document["package_update"] is True
    assert document["write_files"][-1] == {
        "path": "/etc/motd",
        "content": "hello\n",
        "permissions": "0644",
        "owner": "agent:agent",
        "defer": True,
    }
    assert document["runcmd"][-2:] == ["echo sandbox", "echo done"]
    assert "packages" not in user_data(SPEC)


def test_a_file_of_roots_is_there_before_the_packages() -> None:
    """A package source is of no use after the packages."""
    for owner in ("root", "root:root"):
        source = GuestFile(path="/etc/apt/sources.list", content="deb …\n", owner=owner)
        written = user_data(replace(SPEC, files=(source,)))["write_files"][-1]
        assert (written["path"], "defer" in written) == ("/etc/apt/sources.list", False)


def test_the_built_image_keeps_its_package_sources() -> None:
    """cloud-init would write sources of a distribution that the image isn't."""
    assert user_data(SPEC)["apt"] == {"preserve_sources_list": True}
    assert "apt" not in user_data(replace(SPEC, prepared=False))


def test_the_instance_stays_the_same_until_the_guest_is_told_something_else() -> None:
    first = yaml.safe_load(render_meta_data(SPEC))
    assert first == yaml.safe_load(render_meta_data(replace(SPEC)))
    assert re.fullmatch(r"abox-[0-9a-f]{16}", first["instance-id"])
    assert first["local-hostname"] == "my-project"
    for changed in (replace(SPEC, gateway="10.10.3.3"), replace(SPEC, commands=("true",))):
        assert yaml.safe_load(render_meta_data(changed))["instance-id"] != first["instance-id"]


def test_equal_specs_give_equal_bytes() -> None:
    assert render_seed(SPEC) == render_seed(replace(SPEC))
    assert list(render_seed(SPEC)) == ["meta-data", "network-config", "user-data"]


HOSTILE = st.text(alphabet="ab'\"\\:#{}[]&*!|>%@`-?$, \n\t\x07ö0~", max_size=30)


@settings(deadline=None)  # the YAML library is slow on a busy machine
@given(HOSTILE, HOSTILE, HOSTILE)
def test_no_value_adds_a_key_or_changes_another(one: str, two: str, three: str) -> None:
    """Whatever the user's strings hold, the parsed documents differ in those strings only."""
    own = replace(
        SPEC,
        user=one,
        packages=(two,),
        files=(GuestFile(path=one, content=two, mode=three, owner=one),),
        commands=(three,),
        authorized_keys=(two,),
    )
    document, plain = user_data(own), user_data(replace(SPEC, packages=("x",)))
    assert document.keys() == plain.keys()
    assert document["users"][0]["name"] == one
    assert document["users"][0]["ssh_authorized_keys"] == [two]
    assert document["packages"] == [two]
    assert document["runcmd"][-1] == three
    last = document["write_files"][-1]
    assert (last["path"], last["content"], last["permissions"]) == (one, two, three)
    assert document["write_files"][:-1] == plain["write_files"]


def test_only_a_guest_with_a_monitor_port_has_a_sensor() -> None:
    watched = replace(SPEC, monitor=True, prepared=False)
    document = yaml.safe_load(render_user_data(watched))
    paths = {file["path"] for file in document["write_files"]}
    assert {SCRIPT_PATH, UNIT_PATH} == {file.path for file in sensor_files(watched)} <= paths
    assert ["systemctl", "enable", "--now", UNIT] in document["runcmd"]
    assert sensor_files(SPEC) == ()
    assert UNIT not in render_user_data(replace(SPEC, prepared=False))


def test_a_port_is_no_first_boot_of_the_projects_own_image() -> None:
    """It would run the user's commands again, and make the trust store anew."""
    for prepared in (True, False):
        plain = replace(SPEC, prepared=prepared)
        same = instance_id(plain) == instance_id(replace(plain, monitor=True))
        assert same is prepared
