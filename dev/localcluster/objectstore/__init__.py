"""An object store for tests, and the classes by which Spark reaches one."""
