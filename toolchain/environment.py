"""Variables with which plain Pulumi works on a checkout."""

import contextlib
import json
import os
import secrets
import shlex
from collections.abc import Mapping

from toolchain.layout import Checkout
from toolchain.resource_plugins import choice_file

REFUSED = ("PULUMI_CONFIG_PASSPHRASE", "PULUMI_PYTHON_CMD")
"""Variables that would beat ours: they are taken out."""

NO_DOWNLOADS = "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION"


def variables(checkout: Checkout, inherited: Mapping[str, str]) -> dict[str, str]:
    """What a checkout adds to the variables of a shell; makes nothing.

    Args:
        checkout: the checkout.
        inherited: variables of the shell; only its PATH counts.
    """
    folders = inherited.get("PATH", "").split(os.pathsep)
    others = [each for each in folders if each and each != str(checkout.bin)]
    added = {
        "PATH": os.pathsep.join([str(checkout.bin), *others]),
        "PULUMI_HOME": str(checkout.pulumi_home),
        # Without metadata files: a killed Pulumi leaves an empty one, which blocks every command.
        "PULUMI_BACKEND_URL": f"file://{checkout.backend}?metadata=skip",
        "PULUMI_CONFIG_PASSPHRASE_FILE": str(checkout.passphrase),
        "PULUMI_SKIP_UPDATE_CHECK": "true",
        "ABOX_ROOT": str(checkout.root),
    }
    if uses_stand_ins(checkout):
        added[NO_DOWNLOADS] = "true"
    return added


def uses_stand_ins(checkout: Checkout) -> bool:
    """Whether a plugin of the checkout is a stand-in; also as long as none is installed."""
    try:
        plugins = json.loads(choice_file(checkout).read_text())["plugins"]
    except (OSError, ValueError, KeyError):
        return True
    return "stand-in" in plugins.values()


def process_environment(checkout: Checkout, inherited: Mapping[str, str]) -> dict[str, str]:
    """All variables for a process that works on the checkout's stacks."""
    kept = {key: value for key, value in inherited.items() if key not in REFUSED}
    if not uses_stand_ins(checkout):
        kept.pop(NO_DOWNLOADS, None)
    return {**kept, **variables(checkout, inherited)}


def export_lines(checkout: Checkout, inherited: Mapping[str, str]) -> str:
    """Shell lines for `eval`; variables that would beat ours are unset if they are there."""
    unset = [f"unset {name}\n" for name in REFUSED if name in inherited]
    exports = variables(checkout, inherited)
    return "".join(
        unset + [f"export {name}={shlex.quote(value)}\n" for name, value in exports.items()]
    )


def prepare(checkout: Checkout) -> None:
    """Make the folders and the passphrase that the variables name."""
    for folder in (checkout.bin, checkout.pulumi_home, checkout.backend):
        folder.mkdir(parents=True, exist_ok=True)
    if checkout.passphrase.exists():
        return
    beside = checkout.passphrase.with_name(f".passphrase.{os.getpid()}")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as handle:
        handle.write(secrets.token_urlsafe(32) + "\n")
    with contextlib.suppress(FileExistsError):  # another run was faster: its passphrase counts
        checkout.passphrase.hardlink_to(beside)
    beside.unlink()
