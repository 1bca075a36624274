"""Where every worker is when nothing happens any more."""
