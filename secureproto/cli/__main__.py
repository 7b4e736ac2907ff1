"""`python -m secureproto.cli`: the program, where no script of that name is on the path."""

from secureproto.cli.root import main

main()
