"""The job: its spec, how it is read from the resource, its rules, and its JSON for the driver."""
