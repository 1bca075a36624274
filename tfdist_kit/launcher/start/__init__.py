"""How worker processes come to life: fresh interpreters, or forks of a preloaded one."""
