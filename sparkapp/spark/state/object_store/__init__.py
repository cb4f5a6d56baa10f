"""Query state in an object store: there are no links, no renames and no locks, and an object is whole or not there."""
