"""The rules between a job's fields: :mod:`.spec_rules` checks all of them, :mod:`.engine_rules` chooses the engine."""
