"""How long a restart takes: of the driver, of an executor, and at a rescale."""
