"""Checks of what the page of TPUEmbedding says."""
