"""How Spark's processes start: settings, session, JVM, and the Python workers forked from loaded processes."""
