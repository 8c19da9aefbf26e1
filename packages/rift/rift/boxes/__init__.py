"""Boxes: disposable places to work, each in at most one task, at one commit of a watched ref."""
