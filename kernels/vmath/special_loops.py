"""Functions that need a loop or a long branch: jitted scalar code, compiled when a kernel first names one."""

from __future__ import annotations
