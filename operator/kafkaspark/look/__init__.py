"""What a person looks at: ``kafkaspark status``, ``kafkaspark logs``, and the console of ``kafkaspark ui``."""
