"""The programs of the contestants; each reads tasks as :mod:`bench.peers.program` writes them."""
