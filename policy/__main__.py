"""The pack's entry point: it collects the rules, and nothing else."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from pulumi_policy import EnforcementLevel, PolicyPack

from policy.rules import collect_rules

# The constructor serves until the engine ends the process.
PolicyPack(name="abox", enforcement_level=EnforcementLevel.MANDATORY, policies=[*collect_rules()])
