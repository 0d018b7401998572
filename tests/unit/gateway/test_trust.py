"""The trust folder holds what was asked, in every form, and nothing else."""

from __future__ import annotations

import pytest

from abox.render.browser_policy import render_browser_policy
from abox.render.java_keystore import render_java_keystore
from gateway import trust
from tests.integration.gateway.authority import make_authority

PUBLIC, OWN, OTHER = (make_authority()[0] for _ in range(3))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty trust folder, and an image with one public root."""
    system = tmp_path / "system"
    system.mkdir()
    (system / trust.BUNDLE).write_text(PUBLIC)
    (system / "0a1b2c3d.0").write_text(PUBLIC)
    monkeypatch.setattr(trust, "SYSTEM_FOLDER", system)
    monkeypatch.setattr(trust, "subject_hash", lambda _pem: "0a1b2c3d")
    (tmp_path / "trust").mkdir()
    return tmp_path / "trust"


def names(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_every_form_holds_all_that_is_trusted(folder):
    trust.write_trust(folder, OWN, [OTHER])
    assert names(folder) == {
        *("ca-certificates.crt", "abox-ca.pem", "java/cacerts", "abox-browser-policy.json"),
        *("0a1b2c3d.0", "0a1b2c3d.1", "0a1b2c3d.2"),
    }
    bundle = (folder / "ca-certificates.crt").read_text()
    assert bundle == PUBLIC + OTHER + OWN
    assert (folder / "java" / "cacerts").read_bytes() == render_java_keystore(bundle)
    assert (folder / "abox-ca.pem").read_text() == OWN
    assert (folder / "abox-browser-policy.json").read_text() == render_browser_policy(OTHER + OWN)


def test_what_is_not_wanted_goes(folder):
    (folder / "old.pem").symlink_to("gone.pem")
    (folder / "java").mkdir()
    (folder / "java" / "more").write_text("x")
    trust.write_trust(folder, OWN, [])
    assert "java/more" not in names(folder)
    assert not (folder / "old.pem").is_symlink()
    before = names(folder)
    trust.write_trust(folder, OWN, [])
    assert names(folder) == before


@pytest.mark.parametrize("name", ["ca-certificates.crt", "abox-ca.pem", "java/cacerts"])
def test_a_changed_file_of_any_form_changes_the_hash(folder, name):
    assert trust.trust_sha256(folder) == ""
    trust.write_trust(folder, OWN, [OTHER])
    before = trust.trust_sha256(folder)
    (folder / name).write_bytes((folder / name).read_bytes() + b"\n")
    assert trust.trust_sha256(folder) not in ("", before)
