"""Thin adapters over TensorFlow's own classes: the only room that imports TensorFlow.

Each module delegates to the real class and adds only what TensorFlow lacks.
"""
