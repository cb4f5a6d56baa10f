"""Builds the project's container images and loads them into the cluster."""
