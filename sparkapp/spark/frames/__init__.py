"""DataFrames: the record as columns, formats, record errors, the end of a stream, the user's transform."""
