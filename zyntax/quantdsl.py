"""`quantdsl` under the name of the distribution."""

from typing import TYPE_CHECKING

from quantdsl import __all__ as __all__
from quantdsl import __dir__ as __dir__
from quantdsl import __getattr__ as __getattr__

if TYPE_CHECKING:
    from quantdsl import *  # noqa: F403
