"""The data plane without the C extension: the tests' oracle, and a fallback for developers."""
