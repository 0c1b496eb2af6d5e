"""Recognizes Ctrl-C."""


def is_ctrl_c(error: BaseException) -> bool:
    """Also in the middle of waiting for a lock, where Python turns it into "cannot release un-acquired lock"."""
    if type(error) is RuntimeError:  # not a subclass, such as click's Exit, which may follow a Ctrl-C as well
        return isinstance(error.__context__, KeyboardInterrupt)
    return isinstance(error, KeyboardInterrupt)
