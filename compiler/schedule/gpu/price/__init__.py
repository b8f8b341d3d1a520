"""What launches cost, read off the code of their threads: one price for kernels of every making."""
