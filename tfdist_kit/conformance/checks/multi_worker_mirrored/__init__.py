"""Checks of what is said of MultiWorkerMirroredStrategy."""
