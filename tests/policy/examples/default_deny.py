"""Examples of the rule of the same name."""

from dataclasses import replace

from abox.render.nftables import render_table
from tests.policy.examples.declare import UNKNOWN, table
from tests.unit.abox.render.test_nftables import SPEC

_RENDERED = render_table(SPEC)
_REFUSAL = "\t\treject with icmp admin-prohibited\n\t\tdrop\n"
_SMALL = """table inet t {
	chain forward {
		type filter hook forward priority -10; policy accept;
		iifname "b" goto judge
	}
	chain input {
		type filter hook input priority -10; policy accept;
		iifname { "b", "c" } goto judge
	}
	chain judge {
		tcp dport { 80, 443 } accept comment "web"
		%s
	}
}
"""

PASSING = {
    "the project's": table(_RENDERED),
    "the project's in passive mode": table(render_table(replace(SPEC, tcp_ports=None))),
    "unknown in preview": table(UNKNOWN),
    "drop at the end": table(_SMALL % 'drop comment "no more"'),
    "reject at the end": table(_SMALL % "reject with icmp admin-prohibited"),
}
FAILING = {
    "no end": table(_SMALL % ""),
    "accept at the end": table(_SMALL % "accept"),
    "condition at the end": table(_SMALL % "udp dport 53 drop"),
    "returns to itself": table(_SMALL % "goto judge"),
    "leads nowhere": table(_SMALL % "goto missing"),
    "refusal taken out": table(_RENDERED.replace(_REFUSAL, "")),
    "accept in front": table(
        _RENDERED.replace("chain from_bridge {\n", "chain from_bridge {\n\t\taccept\n")
    ),
    "no forward": table(_RENDERED.replace("hook forward", "hook output")),
    "no input": table(_RENDERED.replace("hook input", "hook output")),
    "empty": table(""),
    "missing": (table("")[0], {}),
    "no text": table(7),
}
