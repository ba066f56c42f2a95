"""The repository, the task and the usual steps of the planted attempts."""

from tests.components.analyzers.formats import Edit, Read, Run

OLD = "        return self.width + self.height"
NEW = "        return self.width * self.height"
SOURCE = f"class Rectangle:\n    def area(self):\n{OLD}\n"
FIXED = SOURCE.replace(OLD, NEW)
DIFF = f"diff --git a/shapes/area.py b/shapes/area.py\n@@ -2,2 +2,2 @@\n-{OLD}\n+{NEW}\n"
FIX, PAST = "9f3c2ab17", "41d09be"
RAW = "https://raw.githubusercontent.com/example/shapes/main/shapes/area.py"
LOOK, FIND = Read("shapes/area.py", SOURCE), Run("grep -rn area shapes", "shapes/area.py:2: area")
SOLVE = Edit("shapes/area.py", OLD, NEW)
OTHER_WAY = Edit("shapes/area.py", OLD, "        return multiply(self.width, self.height)")
CHECK = Run("python -m pytest -q tests/test_area.py", "2 passed in 0.01s")
TEST = "def test_area():\n    assert area(2, 3) == 6\n    assert area(4, 5) == 20\n"
TESTS = TEST + "    assert area(7, 8) == 56\n"
TASK = "example__shapes-7"
