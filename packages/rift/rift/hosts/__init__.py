"""Hosts: what the machine that holds the boxes has left, as its worker last said."""
