"""The versions that this version of sexton was tried with; docs/reference/support.md says how."""

from __future__ import annotations

PYTHON = ("3.11", "3.12", "3.13", "3.14")
SPARK = ("4.3.0", "4.2.1")
KAFKA = ("4.3.1", "3.9.2")
