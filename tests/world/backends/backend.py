"""Starts such a server in the world's namespace, and reads how it understood what it got."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests import host

FOLDER = Path(__file__).parent
START_S = 20
TLS_FLAGS = {"TLSv1": "-tls1", "TLSv1.1": "-tls1_1", "TLSv1.2": "-tls1_2", "TLSv1.3": "-tls1_3"}
"""Versions of TLS that a server can be held to, as nginx names them and as openssl does."""
BULK = "bulk"
"""What nginx serves as a file: so many zero bytes, none of them on disk."""
BULK_BYTES = 1 << 30


@dataclass
class Backend:
    """One server that runs."""

    kind: str
    address: str
    port: int
    process: host.Process[bytes]
    log: Path
    folder: tempfile.TemporaryDirectory[str] = field(repr=False)

    def seen(self) -> list[dict[str, Any]]:
        """What it understood: one object a request, ``malformed`` in those it couldn't read."""
        text = self.log.read_text() if self.log.exists() else ""
        seen = [json.loads(line) for line in text.splitlines() if line]
        return [_with_fault(entry) for entry in seen]

    def forget(self) -> None:
        """Forget what it understood so far."""
        self.log.write_text("")

    def close(self) -> None:
        """End it."""
        self.process.kill()
        self.process.wait(5)
        host.end(self.process)
        self.folder.cleanup()


def _with_fault(entry: dict[str, Any]) -> dict[str, Any]:
    """The entry, with nginx's way of saying that it couldn't read a request made the same."""
    if entry.get("status") == "400":
        return {**entry, "malformed": entry["line"]}
    return entry


def start(
    kind: str,
    netns: str,
    address: str,
    port: int,
    pair: Mapping[str, str] | None = None,
    tls: str = "",
) -> Backend:
    """Start a server and wait until it listens.

    Args:
        kind: nginx, python, node, grpc, or openssl, which asks for a client certificate.
        netns: the namespace that it runs in.
        address: one of the namespace's addresses.
        port: its port.
        pair: ``certificate`` and ``key``, PEM, for a server that speaks TLS.
        tls: the one version that nginx or openssl speaks.
    """
    folder = tempfile.TemporaryDirectory(prefix="abxt-")
    path = Path(folder.name)
    log = path / "seen.jsonl"
    for name, text in (pair or {}).items():
        (path / f"{name}.pem").write_text(text)
    place = Place(path, address, port, secure=pair is not None, tls=tls)
    command = _command(kind, place)
    script = f'exec "$@" >> {log} 2>> {path / "error.log"} < /dev/null'
    enter = ["ip", "netns", "exec", netns, "sh", "-c", script, kind]
    process = host.spawn([*enter, *command], stderr_path=path / "error.log")
    backend = Backend(kind, address, port, process, log, folder)

    def listens() -> bool:
        listed = host.run(["ip", "netns", "exec", netns, "ss", "-Hltn", f"sport = :{port}"])
        return address in listed.stdout

    try:
        host.wait_until(
            listens, timeout_s=START_S, describe=lambda: (path / "error.log").read_text()[-1000:]
        )
    except BaseException:
        backend.close()
        raise
    return backend


@dataclass(frozen=True)
class Place:
    """Where a server runs, and how."""

    path: Path
    address: str
    port: int
    secure: bool
    tls: str

    @property
    def pair(self) -> tuple[str, str]:
        """Files of the certificate chain and its key."""
        return str(self.path / "certificate.pem"), str(self.path / "key.pem")


def _command(kind: str, place: Place) -> list[str]:
    if kind == "nginx":
        return _nginx(place)
    chain, key = place.pair
    if kind == "openssl":
        at = f"{place.address}:{place.port}"
        asks = ["-Verify", "1", "-www", TLS_FLAGS[place.tls], "-cert_chain", chain]
        return ["openssl", "s_server", "-accept", at, "-cert", chain, "-key", key, *asks]
    where = [place.address, str(place.port)]
    if kind == "node":
        files = place.pair if place.secure else ()
        return ["node", str(FOLDER / "node_origin.js"), *where, *files]
    options = ["--chain", chain, "--key", key] if place.secure else []
    return [sys.executable, str(FOLDER / f"{kind}_origin.py"), *where, *options]


def _nginx(place: Place) -> list[str]:
    path = place.path
    with (path / BULK).open("wb") as file:
        file.truncate(BULK_BYTES)
    tls = ""
    if place.secure:
        tls = "ssl_certificate {}; ssl_certificate_key {};".format(*place.pair)
    if place.tls:
        tls += f"ssl_protocols {place.tls}; ssl_ciphers ALL:@SECLEVEL=0;"
    (path / "nginx.conf").write_text(
        f"""
        daemon off; master_process off; pid {path}/pid; error_log {path}/error.log;
        events {{ worker_connections 512; }}
        http {{
          log_format seen escape=json '{{"method":"$request_method","target":"$request_uri",'
            '"host":"$http_host","status":"$status","line":"$request"}}';
          access_log {path}/seen.jsonl seen;
          client_max_body_size 0; client_body_temp_path {path}/body; proxy_temp_path {path}/proxy;
          fastcgi_temp_path {path}/f; uwsgi_temp_path {path}/u; scgi_temp_path {path}/s;
          sendfile on; merge_slashes off;
          server {{
            listen {place.address}:{place.port}{" ssl http2" * place.secure}; {tls}
            location = /{BULK} {{ root {path}; }}
            location / {{ return 200 "nginx\\n"; }}
          }}
        }}
        """
    )
    return ["nginx", "-p", str(path), "-c", str(path / "nginx.conf")]
