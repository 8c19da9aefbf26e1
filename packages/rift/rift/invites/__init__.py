"""Invitations to a team or to make an account, and the waitlist of those who would like one."""
