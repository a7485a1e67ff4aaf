"""All cases, in the order in which they share a JVM: those with processes of their own last."""

from __future__ import annotations

from provoked import checkpoint_cases, code_cases, file_cases, kafka_cases, process_cases
from provoked.case import CASES

MODULES = (code_cases, checkpoint_cases, file_cases, kafka_cases, process_cases)

__all__ = ["CASES", "MODULES"]
