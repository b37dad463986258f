"""What actions and commands do, one module a noun."""
