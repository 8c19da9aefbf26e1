"""Where sealed records are handed on to: a receiver of JSON lines, or a fake."""
