"""Box drivers: `protocol` says what each one does; `local` makes boxes on this host, `fake` in this process."""
