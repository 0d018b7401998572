"""The policy pack: one rule a file, each a function and its metadata.

A rule reads what a program declares, so it judges before anything is made. A value that is unknown
in a preview makes the rule say that it can't run; it judges at `up`, before the resource is made.
"""
