"""The command line: parse, call one function, print. Verbs of the halls plug in by entry point."""
