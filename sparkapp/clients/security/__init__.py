"""Tokens for SASL OAUTHBEARER, and TLS as Python speaks it."""
