"""The grammars of the languages and what runs them: masking scan, layout filter, LALR(1) machine, table cache. Imports nothing of ours."""
