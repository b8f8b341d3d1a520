"""Calls from Python that need no Python of ours: a function that is nothing but compute blocks gets machine code that checks and takes its
arguments, makes room for the results, runs the kernels, and gives the value. Whatever that code wasn't made for, and whatever is
wrong with a call, goes the way through the program, which knows all cases and all messages."""
