"""Examples of the rule of the same name."""

from tests.policy.examples.declare import ABSENT, container

_FILTER = '{"defaultAction":"SCMP_ACT_ERRNO","syscalls":[]}'
_OPEN = '{"defaultAction":"SCMP_ACT_ALLOW","syscalls":[]}'
_NNP = "no-new-privileges:true"

PASSING = {
    "set": container(securityOpts=[_NNP]),
    "short": container(securityOpts=["no-new-privileges"]),
    "with equal sign": container(securityOpts=["no-new-privileges=true"]),
    "with a filter": container(securityOpts=[_NNP, f"seccomp={_FILTER}"]),
    "with a profile": container(securityOpts=[_NNP, "apparmor=docker-default"]),
}
FAILING = {
    "missing": container(securityOpts=ABSENT),
    "empty": container(securityOpts=[]),
    "false": container(securityOpts=["no-new-privileges:false"]),
    "set and false": container(securityOpts=[_NNP, "no-new-privileges:false"]),
    "no seccomp": container(securityOpts=[_NNP, "seccomp=unconfined"]),
    "no AppArmor": container(securityOpts=[_NNP, "apparmor=unconfined"]),
    "no AppArmor with colon": container(securityOpts=[_NNP, "apparmor:unconfined"]),
    "no labels": container(securityOpts=[_NNP, "label=disable"]),
    "system paths": container(securityOpts=[_NNP, "systempaths=unconfined"]),
    "open filter": container(securityOpts=[_NNP, f"seccomp={_OPEN}"]),
    "broken filter": container(securityOpts=[_NNP, 'seccomp={"defaultAction"']),
    "any container": container(role=None, securityOpts=ABSENT),
}
