"""Unpacks a set of Debian packages into a folder, with mmdebstrap and this machine's archives."""

from __future__ import annotations

import tempfile
from pathlib import Path

from abox.errors import HostError
from images.apt import SUITE, debian_sources, transport_options
from images.archive import EPOCH_S
from images.host import require, run, stream
from images.progress import PackageCounter, Progress
from images.recipe import SLIM

_MERGED_USR = """\
set -e
for name in bin lib lib64 sbin; do
    mkdir -p "$1/usr/$name"
    ln -s "usr/$name" "$1/$name"
done
printf 'Package: usrmerge\\nPin: release *\\nPin-Priority: -1\\n' \\
    > "$1/etc/apt/preferences.d/99abox"
"""
"""Merges /usr before the first package; the package usrmerge would bring all of Perl to do it."""


def unpack(
    root: Path, *, variant: str, packages: tuple[str, ...], progress: Progress, log: Path
) -> None:
    """Install Debian packages below `root`, a folder that doesn't exist yet.

    Raises:
        HostError: no archive, no mmdebstrap, or a package that can't be had.
    """
    require("mmdebstrap")
    counter = PackageCounter()
    with tempfile.NamedTemporaryFile("w", prefix="abox-apt-", suffix=".list") as sources:
        sources.write("".join(f"{source.line()}\n" for source in debian_sources()))
        sources.flush()
        stream(
            [
                # In a mount namespace of its own: what it mounts goes with it, however it ends.
                *("unshare", "--mount", "--propagation=private"),
                *("env", f"SOURCE_DATE_EPOCH={EPOCH_S}", "DEBIAN_FRONTEND=noninteractive"),
                *("mmdebstrap", "--verbose", "--mode=root", "--format=directory"),
                f"--variant={variant}",
                f"--include={','.join(packages)}",
                *(f"--aptopt={option}" for option in transport_options()),
                *_dpkg_options(),
                f"--setup-hook={_MERGED_USR}",
                *(SUITE, str(root), sources.name),
            ],
            name="mmdebstrap",
            log=log,
            on_line=counter.see,
            on_tick=lambda: progress.say(counter.describe()),
        )


def remove_tree(root: Path) -> None:
    """Remove an unpacked root filesystem, unless something is mounted in it.

    Raises:
        HostError: a mount below `root`, whose content would be removed as well.
    """
    mounts = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    inside = [mount for mount in mounts if Path(mount).is_relative_to(root)]
    if inside:
        raise HostError(
            what=f"{root} is not removed",
            why=f"something is mounted at {inside[0]}",
            remedy=f"umount {inside[0]}, then try again",
        )
    run(["rm", "-rf", "--one-file-system", str(root)], timeout_s=300)


def _dpkg_options() -> list[str]:
    return [
        *(f"--dpkgopt=path-exclude={pattern}" for pattern in SLIM),
        "--dpkgopt=path-include=/usr/share/doc/*/copyright",
    ]
