"""`zynml` under the name of the distribution."""

from typing import TYPE_CHECKING

from zynml import __all__ as __all__
from zynml import __dir__ as __dir__
from zynml import __getattr__ as __getattr__

if TYPE_CHECKING:
    from zynml import *  # noqa: F403
