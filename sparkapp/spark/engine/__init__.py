"""The engines: each completes one checkpoint after another, with an attempt's coordinator and enumerator."""
