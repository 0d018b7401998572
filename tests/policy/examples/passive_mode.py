"""Examples of the rule of the same name."""

from tests.policy.examples.declare import ABSENT, gateway_policy

PASSING = {
    "active": gateway_policy(),
    "acknowledged": gateway_policy(mode="passive", passive_acknowledged=True),
}
FAILING = {
    "passive": gateway_policy(mode="passive"),
    "acknowledgement missing": gateway_policy(mode="passive", passive_acknowledged=ABSENT),
    "acknowledged in text": gateway_policy(mode="passive", passive_acknowledged="true"),
    "missing": gateway_policy(mode=ABSENT),
    "another": gateway_policy(mode="open", passive_acknowledged=True),
    "no policy": (gateway_policy()[0], {}),
}
