"""Package registries as folders: every kind serves one tiny package called abxtdemo.

Each function lays the files of one kind below a folder that an origin serves at `url`, in the
layout that the kind's own tools read. A file's ``.fields`` beside it holds header fields.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

from tests import host

NAME = "abxtdemo"
VERSION = "1.0.0"
SAYS = "forty-two"
"""What the package says when it is run, or holds where nothing can be run."""
GO_MODULE = f"demo.test/{NAME}"
GROUP = "test.abxt"
"""Maven's group of the package."""

GEM_SCRIPT = f"""\
mkdir -p {NAME}/bin gems/gems
cd {NAME}
printf '#!/usr/bin/env ruby\\nputs "{SAYS}"\\n' > bin/{NAME}
cat > x.gemspec <<END
Gem::Specification.new do |spec|
  spec.name, spec.version, spec.summary = "{NAME}", "{VERSION}", "Says one number"
  spec.authors, spec.files, spec.executables = ["Nobody"], ["bin/{NAME}"], ["{NAME}"]
end
END
gem build -q x.gemspec > ../log 2>&1
mv *.gem ../gems/gems
cd ..
gem generate_index -q -d gems > log 2>&1
tar -cz gems | base64
"""
"""Prints a repository of RubyGems: ``gems/``. Its index is Ruby's own form of Ruby's objects."""


def lay_pypi(folder: Path) -> None:
    """A simple index: ``simple/``."""
    shelf = folder / "simple" / NAME
    shelf.mkdir(parents=True)
    name = f"{NAME}-{VERSION}-py3-none-any.whl"
    (shelf / name).write_bytes(_wheel())
    (shelf / "index.html").write_text(f'<!DOCTYPE html><a href="{name}">{name}</a>')


def lay_npm(folder: Path, url: str) -> None:
    """A registry of npm's: ``npm/``."""
    shelf = folder / "npm"
    shelf.mkdir()
    manifest = {"name": NAME, "version": VERSION, "bin": {NAME: "cli.js"}}
    data = _tar(
        {
            "package/package.json": json.dumps(manifest),
            "package/cli.js": f"#!/usr/bin/env node\nconsole.log('{SAYS}')\n",
        }
    )
    (shelf / f"{NAME}.tgz").write_bytes(data)
    digest = base64.b64encode(hashlib.sha512(data).digest()).decode()
    dist = {"tarball": f"{url}/npm/{NAME}.tgz", "integrity": f"sha512-{digest}"}
    document = {
        "name": NAME,
        "dist-tags": {"latest": VERSION},
        "versions": {VERSION: {**manifest, "dist": dist}},
        "time": {VERSION: "2020-01-01T00:00:00.000Z"},
    }
    _write(shelf / NAME, json.dumps(document), {"content-type": "application/json"})


def lay_cargo(folder: Path, url: str) -> None:
    """A sparse registry: ``crates/``."""
    shelf = folder / "crates"
    shelf.mkdir()
    (shelf / "config.json").write_text(json.dumps({"dl": f"{url}/crates/dl"}))
    manifest = f'[package]\nname = "{NAME}"\nversion = "{VERSION}"\nedition = "2021"\n'
    data = _tar(
        {
            f"{NAME}-{VERSION}/Cargo.toml": manifest,
            f"{NAME}-{VERSION}/src/main.rs": f'fn main() {{ println!("{SAYS}") }}\n',
        }
    )
    _write(shelf / "dl" / NAME / VERSION / "download", data)
    entry = {
        "name": NAME,
        "vers": VERSION,
        "deps": [],
        "cksum": hashlib.sha256(data).hexdigest(),
        "features": {},
        "yanked": False,
    }
    _write(shelf / NAME[:2] / NAME[2:4] / NAME, json.dumps(entry) + "\n")


def lay_go(folder: Path) -> None:
    """A module proxy: ``go/``."""
    shelf = folder / "go" / GO_MODULE / "@v"
    version, module = f"v{VERSION}", f"module {GO_MODULE}\n\ngo 1.18\n"
    program = f'package main\n\nfunc main() {{ print("{SAYS}\\n") }}\n'
    info = {"Version": version, "Time": "2020-01-01T00:00:00Z"}
    _write(shelf / "list", f"{version}\n")
    _write(shelf / f"{version}.info", json.dumps(info))
    _write(shelf / f"{version}.mod", module)
    root = f"{GO_MODULE}@{version}"
    _write(shelf / f"{version}.zip", _zip({f"{root}/go.mod": module, f"{root}/main.go": program}))


def lay_maven(folder: Path) -> None:
    """A repository with a parent, and a library that is also a build extension: ``maven/``."""
    _lay_artifact(folder, GROUP, "parent", VERSION, None)
    _lay_artifact(folder, GROUP, NAME, VERSION, {"says.txt": SAYS})
    # What Maven wants beside every extension, though it brings the same itself.
    _lay_artifact(folder, "org.codehaus.plexus", "plexus-utils", "1.1", {})


def _lay_artifact(
    folder: Path, group: str, name: str, version: str, files: Mapping[str, str] | None
) -> None:
    """One artifact of Maven's: a jar of these files, or nothing but a description."""
    shelf = folder / "maven" / group.replace(".", "/") / name / version
    packaging = "pom" if files is None else "jar"
    pom = (
        f"<project><modelVersion>4.0.0</modelVersion><groupId>{group}</groupId>"
        f"<artifactId>{name}</artifactId><version>{version}</version>"
        f"<packaging>{packaging}</packaging></project>"
    )
    made = {f"{name}-{version}.pom": pom.encode()}
    if files is not None:
        manifest = {"META-INF/MANIFEST.MF": "Manifest-Version: 1.0\n"}
        made[f"{name}-{version}.jar"] = _zip({**manifest, **files})
    for file, data in made.items():
        _write(shelf / file, data)
        _write(shelf / f"{file}.sha1", hashlib.sha1(data, usedforsecurity=False).hexdigest())


def lay_apt(folder: Path) -> None:
    """A flat repository of Debian packages: ``apt/``."""
    shelf, tree = folder / "apt", folder / "deb"
    shelf.mkdir()
    control = {
        "Package": NAME,
        "Version": VERSION,
        "Architecture": "all",
        "Maintainer": "Nobody <nobody@registry.test>",
        "Description": "says one number",
    }
    fields = "".join(f"{name}: {value}\n" for name, value in control.items())
    _write(tree / "DEBIAN" / "control", fields)
    _write(tree / "usr" / "share" / NAME, f"{SAYS}\n")
    name = f"{NAME}_{VERSION}_all.deb"
    host.run(["dpkg-deb", "--root-owner-group", "--build", str(tree), str(shelf / name)])
    data = (shelf / name).read_bytes()
    packages = (
        f"{fields}Filename: ./{name}\nSize: {len(data)}\n"
        f"SHA256: {hashlib.sha256(data).hexdigest()}\n"
    ).encode()
    (shelf / "Packages").write_bytes(packages)
    (shelf / "Release").write_text(
        "Origin: abxt\nSuite: ./\nDate: Wed, 01 Jan 2020 00:00:00 UTC\nSHA256:\n"
        f" {hashlib.sha256(packages).hexdigest()} {len(packages)} Packages\n"
    )


def lay_composer(folder: Path, url: str) -> None:
    """A repository of Composer's: ``composer/``."""
    shelf = folder / "composer"
    shelf.mkdir()
    package = f"abxt/{NAME}"
    data = _zip({"composer.json": json.dumps({"name": package}), "says.txt": SAYS})
    (shelf / f"{NAME}.zip").write_bytes(data)
    dist = {
        "type": "zip",
        "url": f"{url}/composer/{NAME}.zip",
        "shasum": hashlib.sha1(data, usedforsecurity=False).hexdigest(),
    }
    release = {"name": package, "version": VERSION, "dist": dist}
    document = {"packages": {package: {VERSION: release}}}
    (shelf / "packages.json").write_text(json.dumps(document))


def lay_oci(folder: Path) -> None:
    """One image of one layer behind the distribution API: ``v2/``."""
    shelf = folder / "v2"
    _write(shelf / "index.html", "{}", {"content-type": "application/json"})
    layer = _tar({"says.txt": f"{SAYS}\n"})
    rootfs = {"type": "layers", "diff_ids": [_digest(gzip.decompress(layer))]}
    config = json.dumps({"architecture": "amd64", "os": "linux", "rootfs": rootfs}).encode()
    kind = "application/vnd.oci.image"
    manifest = {
        "schemaVersion": 2,
        "mediaType": f"{kind}.manifest.v1+json",
        "config": _descriptor(f"{kind}.config.v1+json", config),
        "layers": [_descriptor(f"{kind}.layer.v1.tar+gzip", layer)],
    }
    data = json.dumps(manifest).encode()
    fields = {"content-type": str(manifest["mediaType"]), "docker-content-digest": _digest(data)}
    for reference in (VERSION, _digest(data)):
        _write(shelf / NAME / "manifests" / reference, data, fields)
    for blob in (config, layer):
        _write(shelf / NAME / "blobs" / _digest(blob), blob)


def lay_git(folder: Path) -> None:
    """A repository for the origin's git service: ``demo.git``."""
    bare = folder / f"{NAME}.git"
    work = folder / "work"
    git = ["git", "-c", "user.name=T", "-c", "user.email=t@registry.test", "-C", str(work)]
    work.mkdir()
    (work / "says.txt").write_text(f"{SAYS}\n")
    host.run([*git, "init", "-q", "-b", "main"])
    host.run([*git, "add", "."])
    host.run([*git, "commit", "-qm", "Say a number"])
    host.run(["git", "clone", "-q", "--bare", str(work), str(bare)])


def _wheel() -> bytes:
    info = f"{NAME}-{VERSION}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {NAME}\nVersion: {VERSION}\n"
    files = {
        f"{NAME}.py": f"def main():\n    print('{SAYS}')\n",
        f"{info}/METADATA": metadata,
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": f"[console_scripts]\n{NAME} = {NAME}:main\n",
    }
    record = "".join(
        f"{path},sha256={_urlsafe_digest(text.encode())},{len(text)}\n"
        for path, text in files.items()
    )
    return _zip({**files, f"{info}/RECORD": f"{record}{info}/RECORD,,\n"})


def _urlsafe_digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _descriptor(media_type: str, data: bytes) -> dict[str, object]:
    return {"mediaType": media_type, "digest": _digest(data), "size": len(data)}


def _write(path: Path, content: str | bytes, fields: Mapping[str, str] | None = None) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    if fields is not None:
        path.with_name(f"{path.name}.fields").write_text(json.dumps(dict(fields)))


def _tar(files: Mapping[str, str]) -> bytes:
    """A gzip-compressed tar file of executable files."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for path, text in files.items():
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode = len(text.encode()), 0o755
            archive.addfile(entry, io.BytesIO(text.encode()))
    return buffer.getvalue()


def _zip(files: Mapping[str, str]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
    return buffer.getvalue()
