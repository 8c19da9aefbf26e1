"""GitHub's accounts: where the App is installed, and which organization of ours each of them is connected to."""
