"""Placeholder docstring, replaced by its room."""
