"""Examples of the rule of the same name."""

from tests.policy.examples.declare import ABSENT, DIGEST, container

PASSING = {
    "id": container(image=DIGEST),
    "name and digest": container(image=f"registry.example:5000/agent:1.2@{DIGEST}"),
}
FAILING = {
    "tag": container(image="agent:latest"),
    "no tag": container(image="agent"),
    "63 digits": container(image=DIGEST[:-1]),
    "65 digits": container(image=DIGEST + "0"),
    "upper case": container(image=DIGEST.replace("abcdef", "ABCDEF")),
    "trailing newline": container(image=DIGEST + "\n"),
    "another hash": container(image=DIGEST.replace("sha256", "sha512")),
    "digest as tag": container(image=DIGEST.replace("sha256:", "agent:sha256-")),
    "text before": container(image=f"x {DIGEST}"),
    "missing": container(image=ABSENT),
    "no text": container(image=7),
    "any container": container(role=None, image="agent:latest"),
}
UNKNOWN_IN_PREVIEW = {"image": container}
