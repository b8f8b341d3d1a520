"""Fields that reduce nothing: wide accesses, long rows, turned rows."""
