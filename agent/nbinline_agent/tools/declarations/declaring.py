"""What a declaration does when somebody calls it as it stands."""

from __future__ import annotations


class OnlyDeclared(RuntimeError):
    """A declaration was called; import the function from ``nbinline_rtc.tools`` instead."""


def only_declared() -> OnlyDeclared:
    """The error that every declaration raises."""
    return OnlyDeclared("This function is a declaration. Import it from nbinline_rtc.tools.")
