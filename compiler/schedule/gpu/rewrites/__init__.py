"""Fields turned into equivalent ones that schedules know: axes joined or split, windows as products, cheaper functions."""
