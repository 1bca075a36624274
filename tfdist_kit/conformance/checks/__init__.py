"""The checks: ordinary pytest tests, each bound to the claims that it proves."""
