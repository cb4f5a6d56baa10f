"""Encoders of the sink: from the columns of a result to keys and values, without Python for each record."""
