"""Calls from Python that machine code answers: types whose instances are called through a pointer to machine code, and what such code may
take for granted of this interpreter and of NumPy."""
