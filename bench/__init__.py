"""Benches: each measures against a peer in the same run; none is part of the tests."""
