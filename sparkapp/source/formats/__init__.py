"""Value formats with a schema: Avro and Protobuf, with schemas from a registry."""
