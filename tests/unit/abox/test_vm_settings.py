"""A VM's settings: near misses of every form are refused, and no string leaves its place."""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import IPv4Interface
from xml.etree import ElementTree

import pytest
import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519, rsa
from hypothesis import given, settings
from hypothesis import strategies as st

from abox import vm_settings
from abox.errors import AboxErrors
from abox.naming import default_mac, filter_name, link_filter_name
from abox.refusals import RefusedError
from abox.render.cloud_init import GuestFile, GuestSpec, render_user_data
from abox.render.domain import DomainSpec, render_stylesheet
from abox.render.volume import render_overlay_stylesheet
from abox.settings import VmSettings, parse_settings

DIGEST = "0123456789abcdef" * 4


def public_key(kind: str = "ed25519") -> str:
    key = (
        ed25519.Ed25519PrivateKey.from_private_bytes(b"\1" * 32)
        if kind == "ed25519"
        else rsa.generate_private_key(public_exponent=65537, key_size=2048)
    )
    form = serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    return key.public_key().public_bytes(*form).decode()


GOOD: list[tuple[Callable[[str], str], str]] = [
    (vm_settings.check_mac, ""),
    (vm_settings.check_mac, "52:54:00:12:34:56"),
    (vm_settings.check_mac, "02:aB:cD:eF:00:01"),
    (vm_settings.check_image, ""),
    (vm_settings.check_image, f"/var/lib/images/debian 12.qcow2@sha256:{DIGEST}"),
    (vm_settings.check_user, "agent"),
    (vm_settings.check_user, "_a-b_9"),
    (vm_settings.check_ssh_key, ""),
    (vm_settings.check_ssh_key, public_key()),
    (vm_settings.check_ssh_key, public_key() + " me@host"),
    (vm_settings.check_ssh_key, public_key("rsa")),
    (vm_settings.check_package, "libstdc++6:amd64"),
    (vm_settings.check_package, "jq=1.6-2.1~deb12u1"),
    (vm_settings.check_path, "/etc/motd"),
    (vm_settings.check_mode, "0644"),
    (vm_settings.check_mode, "755"),
    (vm_settings.check_owner, "root:root"),
    (vm_settings.check_owner, "agent"),
    (vm_settings.check_text, "two\nlines\tand a tab, ümlaut"),
    (vm_settings.check_command, "echo 'a' && b"),
]

BAD: list[tuple[Callable[[str], str], str]] = [
    (vm_settings.check_mac, "52-54-00-12-34-56"),
    (vm_settings.check_mac, "52:54:00:12:34:56\n"),
    (vm_settings.check_mac, "52:54:00:12:34"),
    (vm_settings.check_mac, "52:54:00:12:34:5g"),
    (vm_settings.check_mac, "525400123456"),
    (vm_settings.check_mac, "01:00:5e:00:00:01"),
    (vm_settings.check_mac, "ff:ff:ff:ff:ff:ff"),
    (vm_settings.check_mac, "00:00:00:00:00:00"),
    (vm_settings.check_mac, "FE:54:00:12:34:56"),
    (vm_settings.check_image, "/disk.qcow2"),
    (vm_settings.check_image, f"disk.qcow2@sha256:{DIGEST}"),
    (vm_settings.check_image, f"/disk.qcow2@sha256:{DIGEST[:-1]}"),
    (vm_settings.check_image, f"/disk.qcow2@sha256:{DIGEST}\n"),
    (vm_settings.check_image, f"/disk.qcow2@sha256:{DIGEST.upper()}"),
    (vm_settings.check_image, f"/a/../disk@sha256:{DIGEST}"),
    (vm_settings.check_image, f"/a\n/disk@sha256:{DIGEST}"),
    (vm_settings.check_image, f"sha256:{DIGEST}"),
    (vm_settings.check_user, ""),
    (vm_settings.check_user, "root"),
    (vm_settings.check_user, "Agent"),
    (vm_settings.check_user, "a" * 33),
    (vm_settings.check_user, "agent\n"),
    (vm_settings.check_ssh_key, "ssh-ed25519 AAAA"),
    (vm_settings.check_ssh_key, "ssh-ed25519"),
    (vm_settings.check_ssh_key, public_key().replace("ssh-ed25519", "ssh-rsa")),
    (vm_settings.check_ssh_key, public_key() + "\n" + public_key()),
    (vm_settings.check_ssh_key, 'command="sh" ' + public_key()),
    (vm_settings.check_package, ""),
    (vm_settings.check_package, "-o"),
    (vm_settings.check_package, "jq; rm"),
    (vm_settings.check_path, "etc/motd"),
    (vm_settings.check_path, "/etc/"),
    (vm_settings.check_path, "/a\nb"),
    (vm_settings.check_mode, "rw"),
    (vm_settings.check_mode, "64"),
    (vm_settings.check_mode, "0888"),
    (vm_settings.check_owner, ":root"),
    (vm_settings.check_owner, "a b"),
    (vm_settings.check_text, "a\0b"),
    (vm_settings.check_text, "\x1b[31m"),
    (vm_settings.check_command, "  \n"),
]


@pytest.mark.parametrize(("check", "value"), GOOD)
def test_good_values_pass(check: Callable[[str], str], value: str) -> None:
    assert check(value).lower() == value.lower()


@pytest.mark.parametrize(("check", "value"), BAD)
def test_near_misses_are_refused_with_a_remedy(check: Callable[[str], str], value: str) -> None:
    with pytest.raises(RefusedError) as caught:
        check(value)
    assert caught.value.why
    assert caught.value.remedy


def test_a_private_key_is_told_apart() -> None:
    with pytest.raises(RefusedError, match="private"):
        vm_settings.check_ssh_key("-----BEGIN OPENSSH PRIVATE KEY-----")


def test_a_hardware_address_is_given_in_the_form_that_the_plugin_reads_back() -> None:
    assert vm_settings.check_mac("52:54:00:ab:cd:ef") == "52:54:00:AB:CD:EF"
    assert vm_settings.check_mac(default_mac("dev")) == default_mac("dev")
    assert default_mac("dev") != default_mac("dev2")


def test_names_of_filters_never_meet() -> None:
    """No sandbox's name holds the dot that the second filter's name has."""
    names = ["dev", "dev-link", "link", "a" * 63]
    filters = [n for name in names for n in (filter_name(name), link_filter_name(name))]
    assert len(set(filters)) == len(filters)


TEXT = st.text(
    alphabet=st.sampled_from("<>'\"&;{}[]:#|%!/\\ \n\t\0-=.@aé"), max_size=24
)  # fmt: skip
STRINGS = ("mac", "image", "user", "ssh_key", "domain_template")


@settings(deadline=None, max_examples=60)
@given(
    st.dictionaries(st.sampled_from([*STRINGS, "packages", "commands", "content", "path"]), TEXT)
)
def test_no_string_setting_changes_the_shape_of_xml_or_cloud_config(values: dict[str, str]) -> None:
    """Whatever is written into a string, it is refused, or it stays a value."""
    vm: dict[str, object] = {key: values[key] for key in values if key in STRINGS}
    vm |= {key: [values[key]] for key in ("packages", "commands") if key in values}
    if "content" in values:
        vm["files"] = [{"path": values.get("path", "/etc/x"), "content": values["content"]}]
    try:
        parsed = parse_settings("dev", {"backend": "vm", "vm": vm}).vm
    except AboxErrors:
        return
    assert _shape(parsed) == _shape(VmSettings())
    document = yaml.safe_load(render_user_data(_guest(parsed)))
    assert document["users"][0]["name"] == parsed.user
    assert document["runcmd"][-len(parsed.commands) or None :][: len(parsed.commands)] == list(
        parsed.commands
    )
    assert document.get("packages", []) == list(parsed.packages)


def _shape(vm: VmSettings) -> list[str]:
    texts = [render_stylesheet(DomainSpec(sandbox="dev", filter=filter_name("dev")))]
    if vm.image:
        texts.append(render_overlay_stylesheet(vm_settings.split_image(vm.image)[0], "qcow2"))
    trees = [ElementTree.fromstring(text) for text in texts[:1]]
    return [element.tag for tree in trees for element in tree.iter()]


def _guest(vm: VmSettings) -> GuestSpec:
    return GuestSpec(
        sandbox="dev",
        user=vm.user,
        authorized_keys=(vm.ssh_key,),
        host_key="x",
        host_key_public="y",
        mac=vm.mac or default_mac("dev"),
        address=IPv4Interface("10.10.3.10/24"),
        gateway="10.10.3.2",
        proxy_url="http://10.10.3.2:8080",
        ca_certificate="z",
        packages=vm.packages,
        files=tuple(GuestFile(path=f.path, content=f.content) for f in vm.files),
        commands=vm.commands,
    )
