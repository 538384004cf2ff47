"""Devices, memory, queues, launches and the compilation cache."""
