"""Where others tell us that something happened: each is believed in nothing but that it is time to look again."""
