"""A compiled strategy on data: from files and options to outputs."""
