"""What a QuantDSL program means: names, types, exact numbers, and the rules of risk and handlers."""
