"""What runs inside the agent: one zip application of the standard library (and h2 beside it).

The runner copies it into the agent and either starts a verb (``dns``, ``syscall``, ...) or lets it
serve actions as JSON lines. It judges nothing: it reports what came of an action.
"""
