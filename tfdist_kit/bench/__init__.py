"""Measurements, as ratios of pairs that run in turn: a machine's own pace then cancels out."""
