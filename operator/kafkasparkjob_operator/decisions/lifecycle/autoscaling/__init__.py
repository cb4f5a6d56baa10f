"""The parallelism that follows the load (``spec.autoscaler``): what is needed, when it changes, and the explanation."""
