"""Pure builders of the manifests that a job owns."""
