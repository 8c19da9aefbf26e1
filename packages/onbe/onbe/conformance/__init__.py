"""`onbe conformance`: does a running server refuse what it must, and record it? Through its public endpoints alone.

A case is a function that provokes one refusal, or looks at one promise, and raises Failed where it is not kept.
"""
