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
    """Print the line that enables shell completion.

    It completes commands, options and statuses, and, if TREADLE_APP or --app names an application, its job types.

    \b
    treadle completion bash >> ~/.bashrc
    treadle completion zsh >> ~/.zshrc
    treadle completion fish > ~/.config/fish/completions/treadle.fish
    """
    click.echo(LINES[shell])
