"""The real TPU step, traced without a TPU: a made-up topology, and what the graph tells."""
