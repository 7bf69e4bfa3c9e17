"""ask."""

import os
import sys
from typing import TYPE_CHECKING, Any

import click

from appliance.cli import options
from appliance.cli.output import Terminal, result_json
from appliance.core.errors import UsageFault

if TYPE_CHECKING:
    from appliance.client.answer import Answer
    from appliance.supervise.status import Counters


@click.command()
@click.argument("question")
@click.option("--name", metavar="NAME", help="The stack to ask; the only one unless given.")
@click.option("--system", help="A system message.")
@click.option("--max-tokens", type=click.IntRange(1), default=256, show_default=True, help="Length of the answer.")
@click.option("--temperature", type=click.FloatRange(0, 2), default=0.0, show_default=True, help="0 is greedy.")
@options.as_json
def ask(
    question: str, name: str | None, system: str | None, max_tokens: int, temperature: float, as_json: bool
) -> None:
    """Ask the endpoint QUESTION (- reads it from standard input) and stream the answer.

    \b
    Example:
      spark-spec ask "Why is the sky blue?"
      cat notes.txt | spark-spec ask -
    """
    from appliance.lifecycle.managed import client, find
    from appliance.stack.resolve import resolve_machine

    if question == "-":
        question = sys.stdin.read()
    if not question.strip():
        raise UsageFault("the question is empty", "there is nothing to answer", 'spark-spec ask "Why is the sky blue?"')
    talk = Terminal()
    stack = find(resolve_machine([], os.environ), name, talk)
    release = stack.current()
    if release is None:
        raise UsageFault(f"the stack {stack.folder.name} is down", "nobody is there to ask",
                         "bring it up: spark-spec up PRESET")  # fmt: skip
    messages = [{"role": "system", "content": system}] if system else []
    messages.append({"role": "user", "content": question})
    with client(release) as asking:
        answer = asking.chat(
            messages,
            max_tokens=max_tokens,
            temperature=temperature,
            on_text=None if as_json else lambda text: click.echo(text, nl=False),
        )
    if as_json:
        result_json(_data(answer))
    else:
        click.echo()
        talk.say(_figures(answer))
