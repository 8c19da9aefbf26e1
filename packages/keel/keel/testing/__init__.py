"""The test kit: fakes of time and chance, waiting on a condition, and databases of a test's own.

The fixtures are a pytest plugin: `pytest_plugins = ["keel.testing.plugin"]` in the root conftest.
"""

from keel.testing.fakes import FakeClock, FakeIds
from keel.testing.folders import scratch
from keel.testing.waiting import eventually

__all__ = ["FakeClock", "FakeIds", "eventually", "scratch"]
