"""The command line; each module registers its commands."""
