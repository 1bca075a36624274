"""Checks of a user's training code, called in every worker; they raise the same in all of them."""
