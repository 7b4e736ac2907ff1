"""`secureproto demo`: a server and four hospitals as real processes on this machine, and what they show."""
