"""The command line ``rmtsym``.

Human output by default, one JSON object on standard output with ``--json``. Bad input ends with one
line on standard error and exit code 2; ``verify`` exits with 1 when theory and simulation disagree.
"""

from __future__ import annotations

import sys

import typer

import rmtsym.commands  # noqa: F401 - registers the commands
from rmtsym.console import app
from rmtsym.errors import RmtsymError


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())


def _outcome(error: BaseException) -> tuple[int, str]:
    """Exit code and message of an error; what is no error of the user's is raised again."""
    if isinstance(error, typer.Exit):
        return error.exit_code, ""
    if isinstance(error, (typer.Abort, KeyboardInterrupt)):
        return 130, _one_line(error) or "interrupted"
    if isinstance(error, BrokenPipeError):
        return 141, ""
    if isinstance(error, (RmtsymError, OSError, MemoryError)):
        return 2, _one_line(error) or type(error).__name__
    if hasattr(error, "format_message"):
        context = getattr(error, "ctx", None)
        where = context.command_path if context is not None else "rmtsym"
        message = " ".join(error.format_message().split())
        return 2, f"{message} (see: {where} --help)"
    if isinstance(error, (RecursionError, ArithmeticError, ValueError)):
        what = _one_line(error) or "no further word"
        return 2, f"this input is beyond what can be computed ({type(error).__name__}: {what})"
    raise error


def _formula_or_option(arguments: list[str]) -> list[str]:
    """A formula that starts with a minus, ``-t``, in parentheses: it is no option."""
    before = ["", *arguments]
    return [
        f"({text})"
        if text.startswith("-") and not text.startswith(("--", "-o")) and before[k][:1] != "-"
        else text
        for k, text in enumerate(arguments)
    ]


def main(arguments: list[str] | None = None) -> None:
    """Entry point: runs a command, turns errors into one line and an exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        code, message = (
            app(args=_formula_or_option(arguments) or ["--help"], standalone_mode=False),
            "",
        )
    except BaseException as error:
        code, message = _outcome(error)
    if message:
        typer.echo(f"rmtsym: {message}", err=True)
    sys.exit(code if isinstance(code, int) else 0)


if __name__ == "__main__":
    main()
