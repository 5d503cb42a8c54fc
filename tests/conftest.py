"""Puts tests/ on the path, so that tests share ``expressions``."""
