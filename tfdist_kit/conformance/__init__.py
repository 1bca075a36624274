"""The documented behaviour of TensorFlow as a register of claims, and one live check for each.

    register/*.toml -> claims (load) -> Register -> what a check is bound to, and how it should end

TensorFlow is imported only in the workers that a check runs in.
"""

from typing import TYPE_CHECKING

from tfdist_kit import _lazy

if TYPE_CHECKING:
    from tfdist_kit._errors import RegisterError
    from tfdist_kit.conformance.claims import Claim, Deviation, Document, Needs, Register, load

__all__ = ["Claim", "Deviation", "Document", "Needs", "Register", "RegisterError", "load"]

__getattr__ = _lazy.looked_up(
    __name__,
    {
        **dict.fromkeys(__all__, "tfdist_kit.conformance.claims"),
        "RegisterError": "tfdist_kit._errors",
    },
)
