"""Client properties: what the job sets, what the spec may set, and names of other clients."""
