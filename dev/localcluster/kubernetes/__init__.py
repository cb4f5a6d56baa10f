"""Kubernetes on this machine: programs built from source, control plane, node and container runtime."""
