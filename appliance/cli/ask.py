"""ask."""

import os
import sys
from typing import TYPE_CHECKING, Any

import click

from appliance.cli import options
from appliance.cli.output import Terminal, plain, result_json
from appliance.core.errors import UsageFault

if TYPE_CHECKING:
    from appliance.client.answer import Answer


@click.command()
@click.argument("question")
@click.option("--name", metavar="NAME", help="The stack to ask; the only one unless given.")
@click.option("--system", help="A system message.")
@click.option(
    "--max-tokens", type=click.IntRange(1), default=256, show_default=True, help="Length of the answer."
)
@click.option(
    "--temperature", type=click.FloatRange(0, 2), default=0.0, show_default=True, help="0 is greedy."
)
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
    from appliance.lifecycle.managed import client, find, running
    from appliance.stack.resolve import resolve_machine
    from appliance.verify.judge import faults

    question = _read(question)
    if not question.strip():
        raise UsageFault(
            "the question is empty", "there is nothing to answer", 'spark-spec ask "Why is the sky blue?"'
        )
    talk = Terminal()
    stack = find(resolve_machine([], os.environ), name, talk)
    release = running(stack)
    messages = [{"role": "system", "content": system}] if system else []
    messages.append({"role": "user", "content": question})
    with client(release) as asking:
        answer = asking.chat(
            messages,
            max_tokens=max_tokens,
            temperature=temperature,
            on_text=None if as_json else _say,
        )
    if as_json:
        result_json(_data(answer))
    else:
        click.echo()
        talk.say(_figures(answer))
        if fault := faults(answer):
            talk.say(f"warning: {fault}; `spark-spec verify` says more")


def _read(question: str) -> str:
    """The question, from standard input where it is "-". Raises UsageFault where it is not UTF-8."""
    try:
        text = sys.stdin.buffer.read().decode("utf-8") if question == "-" else question
        text.encode("utf-8")  # what came as an argument in another encoding has surrogates in it
    except UnicodeError as error:
        raise UsageFault(
            "the question is not UTF-8", str(error), "convert it: iconv -f latin1 -t utf-8"
        ) from None
    return text


def _say(text: str) -> None:
    click.echo(plain(text), nl=False)


def _data(answer: "Answer") -> dict[str, Any]:
    return {
        "text": answer.text,
        "finish_reason": answer.finish_reason,
        "prompt_tokens": answer.prompt_tokens,
        "completion_tokens": answer.completion_tokens,
        "ttft_s": answer.ttft_s,
        "tok_s": answer.tok_s,
        "elapsed_s": answer.elapsed_s,
        "drafted": answer.drafted,
        "accepted": answer.accepted,
    }


def _figures(answer: "Answer") -> str:
    """One line: what it took, and what speculation did of it where the engine says so."""
    parts = [
        f"{answer.completion_tokens} tokens" if answer.completion_tokens is not None else "tokens unknown"
    ]
    if answer.ttft_s is not None:
        parts.append(f"first after {answer.ttft_s:.2f} s")
    if answer.tok_s is not None:
        parts.append(f"{answer.tok_s:.1f} tok/s")
    if answer.drafted:
        parts.append(f"{answer.accepted} of {answer.drafted} drafted tokens accepted")
    if answer.finish_reason == "length":
        parts.append("cut at --max-tokens")
    return ", ".join(parts)
