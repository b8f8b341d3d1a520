"""Planted faults: a slip in one file, and the tests that must fail because of it. `python -m tests.faults [--room ROOM] [NAME ...]` plants
each in a copy of the tree and says whether its tests caught it; `make faults` runs all of them.

A room of the source tree has a file in `rooms/`: name, file, the text to replace (which occurs once), what replaces it, what a user would
see, and its tests. A fault whose code goes is planted again in the code that took over its work."""
