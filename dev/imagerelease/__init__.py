"""Releases of the container images: Debian's lock, builds that are equal bit by bit, bills of materials."""
