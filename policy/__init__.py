"""The policy pack: one rule a file, each a function and its metadata.

A rule reads what a program declares, so it judges before anything is made. What is unknown in a
preview, because another resource will tell it, is judged at `up`, before the resource is made.
"""
