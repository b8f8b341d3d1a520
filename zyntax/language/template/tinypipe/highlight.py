"""The lexer that Pygments finds: `pygmentize -l tinypipe`."""

from tinypipe import language

TinypipeLexer = language.pygments_lexer()
