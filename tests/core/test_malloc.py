import subprocess
import sys

import pytest

FAULTS = """
import resource, torch
from frost.core.malloc import keep_pages
print(keep_pages(), end=" ")
with torch.no_grad():
    for _ in range(10):                     # until the heap has its size
        torch.zeros(12_000_000) + 1         # 48 MB: above the 32 MB from which glibc always maps anew
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        torch.zeros(12_000_000) + 1
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc only")
def test_pages_that_are_kept_are_not_mapped_again(monkeypatch):
    def faults() -> tuple[str, int]:
        printed = subprocess.run([sys.executable, "-c", FAULTS], capture_output=True, text=True, check=True).stdout
        word, number = printed.split()
        return word, int(number)

    kept = faults()
    monkeypatch.setenv("FROST_KEEP_PAGES", "0")
    plain = faults()
    assert (kept[0], plain[0]) == ("True", "False")
    assert kept[1] < 0.05 * plain[1]
