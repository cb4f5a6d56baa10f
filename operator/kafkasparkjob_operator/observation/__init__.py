"""The input of the state machine: the resource, its pods, its report and its state ConfigMap."""
