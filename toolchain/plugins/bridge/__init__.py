"""How bridged providers answer: their SDK's rules for defaults, plans, diffs and states."""
