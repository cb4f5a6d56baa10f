"""Watches by kopf: each event updates the cache and enqueues the job that it belongs to."""
