"""What runs in a worker process besides the user's code; it imports next to nothing."""
