"""The errors of nbsal under the name that users know: `nbsal.support.errors` defines them."""

from nbsal.support.errors import *  # noqa: F403
