"""The adapter over TensorFlow's PreemptionCheckpointHandler."""
