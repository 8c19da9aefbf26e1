"""The program beside each box's jail. README.md has the map."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path


def build(target: Path) -> Path:
    """Writes the agent as one uncompressed zipapp to `target`, in place of what was there, and returns `target`.

    Beside each source lies its bytecode (without docstrings) for the interpreter that builds; another one compiles the
    source. What is imported in here is imported here alone: the agent itself must not pay for it.
    """
    import os
    import py_compile
    import shutil
    import tempfile
    import zipapp
    from pathlib import Path

    with tempfile.TemporaryDirectory() as scratch:
        package = Path(scratch) / "tree" / __name__
        package.mkdir(parents=True)
        for source in sorted(Path(__file__).parent.glob("*.py")):
            copy = package / source.name
            shutil.copyfile(source, copy)
            os.utime(copy, (1577836800, 1577836800))  # a zip keeps local times: one fixed time makes equal builds equal
            shown = f"rift_agent/{source.name}"
            py_compile.compile(
                str(copy),
                cfile=str(copy) + "c",
                dfile=shown,
                doraise=True,
                optimize=2,
                invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
            )
        draft = target.with_name(f".{target.name}.{os.getpid()}")
        zipapp.create_archive(package.parent, draft, main=f"{__name__}.__main__:main", compressed=False)
        os.chmod(draft, 0o644)
        os.replace(draft, target)
    return target
