"""Rules of the house that a machine can check; imports are checked by import-linter."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCES = sorted((ROOT / "src" / "frost").rglob("*.py"))


def test_importing_frost_needs_only_torch_numpy_safetensors():
    heavy = "('rich', 'sklearn', 'matplotlib', 'scipy', 'PIL')"
    code = f"import sys, frost; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_command_line_does_not_wait_for_torch():
    code = "import sys, frost.cli; frost.cli.main([]); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(ROOT / "src").as_posix())
def test_files_stay_short_with_a_purpose(path):
    text = path.read_text()
    assert text.count("\n") <= 300
    assert ast.get_docstring(ast.parse(text))


def test_every_public_name_is_what_it_says():
    import frost

    assert sorted(frost.__all__) == frost.__all__
    assert all(getattr(frost, name).__doc__ for name in frost.__all__)
    assert set(frost._HOMES) == set(frost.__all__)
    with pytest.raises(AttributeError, match="no attribute 'thaw'"):
        _ = frost.thaw


def test_no_pickle_can_be_reached():
    banned = {"torch.load", "pickle.load", "pickle.loads", "eval", "exec", "os.system"}
    calls = [(path.name, ast.unparse(node.func)) for path in SOURCES for node in ast.walk(ast.parse(path.read_text()))
             if isinstance(node, ast.Call)]
    assert [call for call in calls if call[1] in banned or call[1].endswith("extractall")] == []
