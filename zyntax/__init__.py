"""The command `zyntax`: one file a subcommand. Nothing here is imported before its subcommand runs."""
