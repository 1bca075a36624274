"""The mutants: named ways to break a behaviour, under each of which a check has to fail."""
