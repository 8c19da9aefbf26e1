"""Forges, where repositories come from: `protocol` says what each one does; `local` speaks to any git URL or path."""
