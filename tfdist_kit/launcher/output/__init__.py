"""The workers' output: files, the console, status lines, and a look at them from elsewhere."""
