"""Stands in for `abox-gateway` in a test's container: the protocol, with a file for a pod.

Copied into the container as the command's text; so it imports nothing of the project.
"""

import base64
import hashlib
import json
import pathlib
import sys

STATE = pathlib.Path("/state/live.json")


def apply(document):
    """Take the document, except one that names the host `refuse.test`."""
    policy = document["policy"]
    if "refuse.test" in json.dumps(policy):
        error = {"what": "refuse.test is refused", "why": "a test wants it", "remedy": "leave it"}
        return {"ok": False, "error": error}
    canonical = json.dumps(policy, sort_keys=True, separators=(",", ":"))
    # DER of a PEM certificate: its base64 body.

    body = "".join(document["ca"]["certificate"].strip().splitlines()[1:-1])
    live = {
        "policy_hash": hashlib.sha256(canonical.encode()).hexdigest(),
        "ca_fingerprint": hashlib.sha256(base64.b64decode(body)).hexdigest(),
        "trust_sha256": hashlib.sha256(json.dumps(document["trusted_cas"]).encode()).hexdigest(),
    }
    STATE.write_text(json.dumps(live))
    return {"ok": True, **live}


if sys.argv[1] == "apply":
    answer = apply(json.loads(sys.stdin.buffer.read()))
    print(json.dumps(answer))  # noqa: T201
    sys.exit(0 if answer["ok"] else 2)
print(STATE.read_text() if STATE.exists() else "{}")  # noqa: T201
