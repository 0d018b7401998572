"""``abox-gateway``: the commands of the control container.

serve    the daemon
collect  write the verdict log (the daemon starts it)
apply    make the policy on standard input live; one line of JSON says how it went and what is live
status   what is live, as one line of JSON
ready    wait until dns and proxy serve
init     write the files of a pod without a policy
keys     in the proxy's container: TLS keys on standard output, until standard input ends
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from ipaddress import IPv4Address
from pathlib import Path

from abox.render.paths import CA_DIR


def main(arguments: Sequence[str]) -> int:
    """Run one command; the exit code."""
    parser = argparse.ArgumentParser(prog="abox-gateway", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("command", choices=sorted(COMMANDS))
    parser.add_argument("--timeout", type=float, default=60, help="seconds to wait (ready)")
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    return COMMANDS[options.command](options)


def _gateway() -> IPv4Address:
    return IPv4Address(os.environ["ABOX_GATEWAY"])


def _serve(_options: argparse.Namespace) -> int:
    import asyncio

    from gateway.serve import serve

    asyncio.run(serve(Path(CA_DIR)))
    return 0


def _collect(_options: argparse.Namespace) -> int:
    from gateway.collect import collect

    collect(os.environ["ABOX_SANDBOX"], str(_gateway()))
    return 0


def _apply(_options: argparse.Namespace) -> int:
    from abox.errors import AboxError
    from gateway.apply import apply
    from gateway.plan import parse_plan
    from gateway.status import read_status

    try:
        plan = parse_plan(sys.stdin.read())
        apply(plan, _gateway())
    except AboxError as error:
        _print({"ok": False, "error": error.to_document()})
        return int(error.exit_code)
    _print({"ok": True, **read_status(_gateway()).to_document()})
    return 0


def _status(_options: argparse.Namespace) -> int:
    from gateway.status import read_status

    _print(read_status(_gateway()).to_document())
    return 0


def _ready(options: argparse.Namespace) -> int:
    from gateway.ready import wait_until_ready

    port = int(os.environ["ABOX_PROXY_PORT"])
    complaint = wait_until_ready(_gateway(), port, options.timeout)
    if complaint:
        sys.stderr.write(f"the gateway pod does not serve after {options.timeout:g} s\n")
        sys.stderr.write(f"why: {complaint}\n")
        sys.stderr.write("do: look at the logs of the pod's containers\n")
        return 1
    return 0


def _init(_options: argparse.Namespace) -> int:
    from gateway.apply import write_first
    from gateway.plan import Plan

    write_first(Plan(policy=None))
    return 0


def _keys(_options: argparse.Namespace) -> int:
    from abox.errors import AboxError
    from abox.render.paths import ENVOY_ADMIN_SOCKET, KEY_LOG_FILE
    from gateway.envoy_admin import EnvoyAdmin
    from gateway.key_log import KeyLog

    try:
        keys = KeyLog(Path(KEY_LOG_FILE), EnvoyAdmin(Path(ENVOY_ADMIN_SOCKET)))
        keys.stream(sys.stdin.fileno(), sys.stdout.fileno())
    except AboxError as error:
        sys.stderr.write(f"{error}\n")
        return int(error.exit_code)
    except OSError as error:  # Envoy is gone, or the reader
        sys.stderr.write(f"TLS keys: {error}\n")
        return 1
    return 0


def _print(document: Mapping[str, object]) -> None:
    sys.stdout.write(json.dumps(document) + "\n")


COMMANDS: Mapping[str, Callable[[argparse.Namespace], int]] = {
    "serve": _serve,
    "collect": _collect,
    "apply": _apply,
    "status": _status,
    "ready": _ready,
    "init": _init,
    "keys": _keys,
}
"""Each imports what it needs by itself: the daemon stays small."""

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
