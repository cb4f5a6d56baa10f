"""The sink: a writer and committer of transactions, and the end of every transaction."""
