"""Runs a resource on this machine over given records: no Kubernetes, no broker."""
