"""How many jobs an operator can manage, on a real API server with played kubelets and drivers."""
