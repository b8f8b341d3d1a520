"""Random programs of every kernel kind, as textbooks write them: shapes, layouts, dtypes, orders of loops, names and what follows a sum are
drawn; the answer is NumPy's in float64, or exact.

    python -m tests.random_cases 500 --seed 0 --device cuda:0 --processes 16

Each case stands for its seed: `python -m tests.random_cases 1 --seed S` shows it again. Of one that fails, the smallest case that fails in
the same way is shown (`tests.shrinking`)."""
