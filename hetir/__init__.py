"""One kernel in Python, the same bits on every accelerator."""

__version__ = "0.1.0"
