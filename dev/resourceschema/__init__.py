"""Generates from the dataclasses of the resources what repeats them: ``make generate`` writes the files."""
