"""A field divided among several launches, with what lies in workspaces between them."""
