"""Looks at the cluster before an attempt starts: checks that refuse a start, and risks that a person should know."""
