"""Where the workers' servers listen, and who can reach them."""
