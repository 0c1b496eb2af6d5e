"""treadle completion."""

import click

LINES = {
    "bash": 'eval "$(_TREADLE_COMPLETE=bash_source treadle)"',
    "zsh": 'eval "$(_TREADLE_COMPLETE=zsh_source treadle)"',
    "fish": "_TREADLE_COMPLETE=fish_source treadle | source",
}


@click.command()
@click.argument("shell", type=click.Choice(list(LINES)))
def completion(shell: str) -> None:
    """Print the line that lets the shell complete commands, options, statuses and job types.

    Job types are those of --app or TREADLE_APP.

    \b
    treadle completion bash >> ~/.bashrc
    treadle completion zsh >> ~/.zshrc
    treadle completion fish > ~/.config/fish/completions/treadle.fish
    """
    click.echo(LINES[shell])
