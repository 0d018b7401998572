"""SshKey: a pair that belongs together, and is replaced when it doesn't."""

from __future__ import annotations

from provider.ssh_key import SshKey, SshKeyResource, faults, make_key


def test_a_new_pair_belongs_together():
    made = make_key()
    assert made.public.startswith("ssh-ed25519 ")
    assert made.fingerprint.startswith("SHA256:")
    assert faults(made) == []


def test_two_pairs_differ():
    assert make_key().private != make_key().private


def test_halves_of_two_pairs_are_found_out():
    one, other = make_key(), make_key()
    assert faults(SshKey(one.private, other.public)) == ["the stored halves don't belong together"]
    assert faults(SshKey("nonsense", other.public)) == ["the stored key can't be read"]


def test_a_broken_pair_is_replaced():
    resource = SshKeyResource()
    _, state = resource.create({"sandbox": "p", "purpose": "host"})
    broken = resource.read("x", {**state, "public": make_key().public})
    assert resource.drift(broken, {}) == {"findings": True}


def test_a_purpose_that_nobody_has_is_refused():
    problems = list(SshKeyResource().problems({"sandbox": "p", "purpose": "other"}, {}))
    assert [problem.name for problem in problems] == ["purpose"]
