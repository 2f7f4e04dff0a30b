"""`shardviz museum`: cases in which some torch release goes wrong, run on the installed one."""

from __future__ import annotations

import sys

import click
import msgspec

from shardviz.checks.museum import PATIENCE, cards, museum
from shardviz.core.errors import SpecError

__all__ = ["museum_command"]

NOT_AS_RECORDED = 1


@click.command("museum")
@click.argument("name", metavar="[CARD]", required=False)
@click.option("--script", is_flag=True, help="Print a program of plain torch that reproduces CARD, and run nothing.")
@click.option("--report", is_flag=True, help="Print the text of a report about CARD, and run nothing.")
@click.option("--list", "listed", is_flag=True, help="Print the names of the cards, and run nothing.")
@click.option(
    "--timeout", type=click.FloatRange(min=1), default=PATIENCE, show_default=True, help="Seconds until a card hangs."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")
def museum_command(name: str | None, script: bool, report: bool, listed: bool, timeout: float, as_json: bool) -> None:
    """Run the museum's cards on the installed torch with real ranks, beside what was seen on other releases.

    Exit status 1 when a card comes out otherwise than it is recorded for this release.
    """
    if listed:
        click.echo("\n".join(card.id for card in cards()))
        return
    if script or report:
        card = next((card for card in cards() if card.id == name), None)
        if card is None:
            raise SpecError(f"the museum has no card {name!r}; --list names them")
        click.echo(card.script if script else card.report(), nl=False)
        return
    found = museum((name,) if name else (), timeout=timeout, progress=lambda card: click.echo(f"{card} …", err=True))
    click.echo(msgspec.json.encode(found.json()) if as_json else found.text)
    if found:
        sys.exit(NOT_AS_RECORDED)
