"""How the server listens: the guarded protocol on top of uvicorn's, TLS, and several ports in one loop."""
