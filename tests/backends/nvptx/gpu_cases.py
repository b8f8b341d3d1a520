"""Every case of a GPU instruction; importing the others writes them down."""

import matrix_cases  # noqa: F401
import thread_cases  # noqa: F401
from gpu_case import CASES, Case

__all__ = ["CASES", "Case"]
