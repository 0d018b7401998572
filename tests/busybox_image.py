"""A tiny image for tests that only need something to run: BusyBox from its static package."""

from __future__ import annotations

import io
import json
import tarfile
import tempfile
from pathlib import Path

from tests import host

NAME = "abxt/busybox:latest"
APPLETS = ("sh", "sleep", "true", "false", "cat", "echo", "ip", "id", "ls", "touch", "env", "wget")
ENTRYPOINT = "/bin/busybox"


def busybox_image() -> str:
    """Id of the image; it is built if the engine doesn't have it."""
    found = _identity()
    if found is None:
        _build()
        found = _identity()
    assert found is not None
    return found


def _identity() -> str | None:
    done = host.run(["docker", "image", "inspect", NAME], check=False)
    if done.code != 0:
        return None
    image = json.loads(done.stdout)[0]
    made_here = image["Config"]["Entrypoint"] == [ENTRYPOINT]
    return str(image["Id"]) if made_here else None


def _build() -> None:
    with tempfile.TemporaryDirectory(prefix="abxt-busybox-") as folder:
        root = Path(folder)
        host.run(["apt-get", "download", "busybox-static"], cwd=root, timeout_s=120)
        package = next(root.glob("*.deb"))
        host.run(["dpkg-deb", "-x", str(package), str(root / "package")])
        archive = root / "image.tar"
        _write_archive(root / "package" / "bin" / "busybox", archive)
        change = f'ENTRYPOINT ["{ENTRYPOINT}"]'
        host.run(["docker", "import", "--change", change, str(archive), NAME])


def _write_archive(binary: Path, archive: Path) -> None:
    with tarfile.open(archive, "w") as tar:
        for folder in ("bin", "etc", "tmp", "data"):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if folder == "tmp" else 0o755
            tar.addfile(entry)
        content = binary.read_bytes()
        entry = tarfile.TarInfo("bin/busybox")
        entry.size, entry.mode = len(content), 0o755
        tar.addfile(entry, io.BytesIO(content))
        for applet in APPLETS:
            link = tarfile.TarInfo(f"bin/{applet}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(link)
