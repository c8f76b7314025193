"""The command `berds`, as tests call it."""

from click.testing import CliRunner

from berdslib.cli import main


def tried(*arguments):
    """Return what the command printed and how it ended."""
    return CliRunner().invoke(main, [str(a) for a in arguments])


def berds(*arguments):
    """Like tried, but the command has to succeed."""
    result = tried(*arguments)
    assert result.exit_code == 0, result.output
    return result
