"""Puts tests/ on the path, so that tests share ``expressions``."""

from hypothesis import settings

# The same examples on every run and machine; explore with --hypothesis-profile=default.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")
