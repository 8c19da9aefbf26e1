"""The development issuer: an identity provider with one person, inside the process, to try Onbe with."""
