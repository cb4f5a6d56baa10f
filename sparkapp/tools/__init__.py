"""Commands for people: what a job's checkpoints and transactions are, and the few safe ways to change them."""
