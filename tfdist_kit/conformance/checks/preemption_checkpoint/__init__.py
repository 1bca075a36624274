"""Checks of what the page of PreemptionCheckpointHandler says."""
