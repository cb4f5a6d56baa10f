"""This machine: commands, processes, mounts, the network, Debian packages, free ports."""
