"""The Kubernetes API: the port that the controller uses, and the client behind it."""
