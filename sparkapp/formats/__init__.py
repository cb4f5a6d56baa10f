"""What source and sink share about formats: the schema registry, Avro schemas; and the encoders of the sink."""
