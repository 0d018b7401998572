"""What the agent trusts: public roots, the stack's authorities and the sandbox's own.

The folder takes the place of the agent's /etc/ssl/certs, so it holds what programs look for there:
the bundle, a file a certificate under the hash of its subject (OpenSSL's ``-CApath``), and the same
certificates in Java's form, where Debian's Java looks. A policy for browsers names those that are
not public, since browsers bring the public ones.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Sequence
from pathlib import Path

from abox import agent_environment
from abox.render.browser_policy import render_browser_policy
from abox.render.java_keystore import render_java_keystore
from abox.render.paths import PUBLIC_ROOTS_FILE
from gateway.files import read_file, write_file
from gateway.host import run

SYSTEM_FOLDER = Path(PUBLIC_ROOTS_FILE).parent
"""The image's own public roots."""

BUNDLE, OWN, JAVA, BROWSERS = (
    path.removeprefix(f"{agent_environment.TRUST_DIR}/")
    for path in (
        agent_environment.BUNDLE,
        agent_environment.SANDBOX_CA,
        agent_environment.JAVA_TRUST_STORE,
        agent_environment.BROWSER_POLICY,
    )
)
"""Files of the folder, as the agent's variables name them."""


def public_roots() -> str:
    """The image's public roots, PEM."""
    return (SYSTEM_FOLDER / BUNDLE).read_text()


def write_trust(folder: Path, own: str, others: Sequence[str]) -> None:
    """Bring the folder up to date.

    Args:
        folder: the trust volume.
        own: the sandbox's authority, PEM.
        others: the stack's ``trusted_cas``, PEM: what is not intercepted needs them.
    """
    trusted = bundle(own, others)
    wanted: dict[str, str | bytes] = {
        BUNDLE: trusted,
        OWN: own,
        JAVA: render_java_keystore(trusted),
        BROWSERS: render_browser_policy("".join([*others, own])),
        **_hashed([own, *others]),
    }
    for found in folder.iterdir():
        if found.is_symlink():  # what a new volume took from the image links to files that go
            found.unlink()
    for name, content in wanted.items():
        (folder / name).parent.mkdir(mode=0o755, exist_ok=True)
        write_file(folder / name, content)
    for name, path in _files(folder).items():
        if name not in wanted:
            path.unlink()


def bundle(own: str, others: Sequence[str]) -> str:
    """All certificates that the agent trusts, PEM."""
    return "".join(part if part.endswith("\n") else f"{part}\n" for part in _parts(own, others))


def trust_sha256(folder: Path) -> str:
    """SHA-256 of names and contents of the folder, in hex; empty if it holds no bundle."""
    if read_file(folder / BUNDLE) is None:
        return ""
    digest = hashlib.sha256()
    for name, path in sorted(_files(folder).items()):
        digest.update(f"{name}\0".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def _files(folder: Path) -> dict[str, Path]:
    found = (path for path in folder.rglob("*") if path.is_symlink() or path.is_file())
    return {str(path.relative_to(folder)): path for path in found}


def _parts(own: str, others: Sequence[str]) -> list[str]:
    return [public_roots(), *others, own]


def _hashed(certificates: Sequence[str]) -> dict[str, str]:
    """The image's certificates and these under their hashed names, numbered without a gap."""
    found = {
        path.name: path.read_text()
        for path in SYSTEM_FOLDER.iterdir()
        if len(path.name) == 10 and path.suffix[1:].isdigit()
    }
    for pem in certificates:
        subject = subject_hash(pem)
        number = next(n for n in itertools.count() if f"{subject}.{n}" not in found)
        found[f"{subject}.{number}"] = pem
    return found


def subject_hash(pem: str) -> str:
    """OpenSSL's hash of a certificate's subject: eight hex digits."""
    scratch = Path("/tmp/subject.pem")  # noqa: S108  # a private tmpfs, under apply's lock
    write_file(scratch, pem)
    return run("openssl", "x509", "-noout", "-subject_hash", "-in", str(scratch)).strip()
