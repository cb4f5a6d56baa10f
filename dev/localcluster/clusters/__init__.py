"""The two kinds of cluster that a machine can have, and the choice between them."""
