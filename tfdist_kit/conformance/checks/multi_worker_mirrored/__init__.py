"""Checks of what the page of MultiWorkerMirroredStrategy says."""
