"""The server's requests, one module a port: what is read, which function does it, how it is answered."""
