"""What a command raises when whoever reads its output has gone away (`| head`)."""


class ReaderGone(Exception):
    """Nobody reads any further: the command ends, and well."""
