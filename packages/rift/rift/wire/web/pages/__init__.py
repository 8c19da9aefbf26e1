"""One file a page, or a few that belong together: read the form, one action, render. `PAGES` lists its paths."""
