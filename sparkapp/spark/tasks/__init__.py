"""The code of Spark's tasks: the data source, the write task, and the clients of a Python worker."""
