"""Speed, as ratios to peers measured in the same run. Not part of the tests: figures depend on the machine."""
