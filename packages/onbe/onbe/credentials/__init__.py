"""Tokens and grants in the hands of whoever holds one: ended before its time, or asked after."""
