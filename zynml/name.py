"""What the language is called, and how its files end."""

NAME = "zynml"
ENDINGS = (".zynml", ".ml")
