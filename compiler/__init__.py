"""The compiler: TypedAST, HIR, analysis, schedules, backends, driver. Language frontends sit above it."""
