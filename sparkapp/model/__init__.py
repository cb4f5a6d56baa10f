"""The vocabulary of the protocol: pure values and rules, standard library only.

Operator and application both import this package and nothing else of each other's.
"""
