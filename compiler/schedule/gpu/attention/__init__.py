"""Attention, and products whose results other products multiply: blocks that walk along tiles of terms."""
