"""The queries of ``transform.sql`` that need no plan of Spark: their text, and what they mean."""
