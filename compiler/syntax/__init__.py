"""From text to tree, for every language: reading files, and the actions of what `common.lark` says. Each action is a method named as
its rule's alias and builds one node of the typed tree.

Actions decide nothing about meaning. A fault that only shows when a rule is complete (a bad number, an expression that can't be
assigned to) is noted in `faults`, and a node is built all the same, so that the parser finds the other faults too."""
