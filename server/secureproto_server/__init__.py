"""The server of a federation: what it keeps, how it listens, how it runs rounds."""
