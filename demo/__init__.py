"""The demo: a job on the local cluster is killed and rescaled while it runs, then every record is counted.

``make demo`` runs ``python -m demo``. The end-to-end tests use the same wrappers, data and oracle.
"""
