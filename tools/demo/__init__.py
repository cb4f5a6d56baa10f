"""The demo: a real job on the local cluster is killed and rescaled while it runs, and every record is counted.

``make demo`` runs ``python -m demo``; the end-to-end tests use the same wrappers, the same data and the same oracle.
"""
