"""The sections of a job's spec: cluster, source, transform, sink and checkpoints, as the resource has them."""
