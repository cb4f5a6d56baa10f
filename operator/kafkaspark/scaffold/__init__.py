"""Folders with a job that runs at once, and the templates that they are made of."""
