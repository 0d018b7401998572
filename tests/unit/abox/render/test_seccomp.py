"""The seccomp profile: an allowlist, without the calls that lead out of a container."""

from __future__ import annotations

import json
from typing import Any

import pytest

from abox.render.seccomp import (
    ALLOW,
    ENOSYS,
    NAMESPACE_FLAGS,
    PURPOSES,
    REFUSE,
    allowed_calls,
    render_seccomp,
)

ESCAPES = [
    "acct", "add_key", "adjtimex", "bpf", "chroot", "clock_adjtime", "clock_settime",
    "create_module", "delete_module", "fanotify_init", "finit_module", "fsconfig", "fsmount",
    "fsopen", "fspick", "get_mempolicy", "init_module", "io_uring_enter", "io_uring_register",
    "io_uring_setup", "ioperm", "iopl", "kcmp", "kexec_file_load", "kexec_load", "keyctl",
    "listmount", "lookup_dcookie", "mbind", "migrate_pages", "modify_ldt", "mount",
    "mount_setattr", "move_mount", "move_pages", "name_to_handle_at", "nfsservctl",
    "open_by_handle_at", "open_tree", "perf_event_open", "pidfd_getfd", "pivot_root",
    "process_madvise", "quotactl", "quotactl_fd", "reboot", "request_key", "set_mempolicy",
    "setdomainname", "sethostname", "setns", "settimeofday", "statmount", "swapoff", "swapon",
    "syslog", "umount", "umount2", "unshare", "uselib", "userfaultfd", "vhangup", "vm86",
    "vm86old",
]  # fmt: skip


def rules(name: str) -> list[dict[str, Any]]:
    return [rule for rule in json.loads(render_seccomp())["syscalls"] if name in rule["names"]]


def test_what_is_not_listed_is_refused():
    document = json.loads(render_seccomp())
    assert document["defaultAction"] == REFUSE
    assert {rule["action"] for rule in document["syscalls"]} == {ALLOW, REFUSE}


@pytest.mark.parametrize("name", ESCAPES)
def test_a_call_that_leads_out_is_not_listed(name):
    assert rules(name) == []


@pytest.mark.parametrize("name", ["socket", "socketpair", "clone", "personality"])
def test_a_call_that_is_limited_by_argument_has_no_rule_without_one(name):
    found = rules(name)
    assert found
    assert all(rule["args"] for rule in found)


def test_only_local_ip_and_routing_sockets_are_allowed():
    families = {rule["args"][0]["value"] for rule in rules("socket")}
    assert families == {1, 2, 10, 16}
    for rule in rules("socket"):
        conditions = {one["index"]: one for one in rule["args"]}
        assert all(one["op"] == "SCMP_CMP_EQ" for one in conditions.values())
        if conditions[0]["value"] == 16:
            assert conditions[2]["value"] == 0
        if conditions[0]["value"] in (2, 10):
            assert conditions[2]["value"] in (0, 1, 6, 17, 58, 262)


def test_clone_with_a_namespace_is_refused_and_clone3_is_told_to_be_missing():
    (rule,) = rules("clone")
    assert rule["args"] == [
        {"index": 0, "value": NAMESPACE_FLAGS, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ"}
    ]
    flags = (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000)
    assert sum(flags) == NAMESPACE_FLAGS
    (rule,) = rules("clone3")
    assert (rule["action"], rule["errnoRet"]) == (REFUSE, ENOSYS)


def test_32_bit_siblings_of_the_architectures_are_left_out():
    for entry in json.loads(render_seccomp())["archMap"]:
        assert entry["subArchitectures"] == []


def test_no_call_is_listed_twice():
    assert len(set(allowed_calls())) == len(allowed_calls())
    assert all(names.split() for names in PURPOSES.values())


def test_equal_bytes_every_time():
    assert render_seccomp() == render_seccomp()
    assert "\n" not in render_seccomp()
