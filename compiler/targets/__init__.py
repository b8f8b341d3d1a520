"""What is made for a kind of machine, and how."""
