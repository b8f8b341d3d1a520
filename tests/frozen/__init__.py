"""What the compiler makes of a fixed list of programs, so that a change of its structure can be shown to change nothing else.

    make frozen                  # the HIR texts and messages against the digests in the tree, as CI does
    make frozen BASE=COMMIT      # all stages, PTX and objects included, of this tree against those of another commit
"""
