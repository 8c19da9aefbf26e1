"""Who people are at another sign-in: whose word for it is taken, and for which account."""
