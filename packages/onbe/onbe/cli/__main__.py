"""`python -m onbe.cli`: the program `onbe`, where it is not on the path."""

from onbe.cli import main

main()
