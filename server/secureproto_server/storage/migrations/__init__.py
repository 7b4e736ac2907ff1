"""Steps from one schema to the next, run by `secureproto_server.storage.migrate`."""
