"""Access to brokers and registry: whom the job trusts, who it is, and where the pods have its secrets."""
