"""Examples of the rule of the same name."""

from tests.policy.examples.declare import ABSENT, container

PASSING = {
    "id and group": container(user="1000:1000"),
    "name": container(user="agent"),
    "group root": container(user="1000:0"),
}
FAILING = {
    "missing": container(user=ABSENT),
    "empty": container(user=""),
    "root": container(user="root"),
    "root and group": container(user="root:1000"),
    "zero": container(user="0"),
    "zeros": container(user="00:1000"),
    "number": container(user=1000),
    "any container": container(role=None, user="0"),
}
