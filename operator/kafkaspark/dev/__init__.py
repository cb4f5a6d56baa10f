"""Runs a job while somebody writes it: over the records of a file, or on a broker."""
