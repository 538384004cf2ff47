"""The drivers, one a file; each is opened when its device is first asked for."""
