"""Prompts of our own, varied in kind: how far a draft gets depends on what is written."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Prompt:
    """One question. `kind` is what it stands for."""

    name: str
    kind: str
    text: str

    @property
    def messages(self) -> tuple[dict[str, str], ...]:
        return ({"role": "user", "content": self.text},)


PROMPTS = (
    Prompt("advice", "chat", "I have a free afternoon and it is raining. What could I do at home?"),
    Prompt("letter", "chat", "Write a short, friendly note that thanks a neighbour for watering the plants."),
    Prompt("function", "code", "Write a Python function that returns the n-th Fibonacci number, with a loop."),
    Prompt("query", "code", "Write a SQL query that counts the orders of each customer in the year 2024."),
    Prompt("train", "maths", "A train goes 60 km in 45 minutes. How fast is it in km/h? Show the steps."),
    Prompt("share", "maths", "Three friends share 84 marbles so that each has twice as many as the one before. "
           "How many has each?"),
    Prompt("bees", "summary", "Sum up in one sentence: Bees visit flowers for nectar. While they drink, pollen "
           "sticks to their hair, and some of it falls off at the next flower. Many plants can only form seeds "
           "because of this, among them most fruit trees. Where bees become rare, harvests shrink."),
    Prompt("harbour", "summary", "List the three main points: The old harbour was closed in 1998 because ships had "
           "grown too large for it. The city turned the warehouses into flats and the quay into a park. Rents "
           "nearby have doubled since, and the fishermen have moved to the next bay."),
)  # fmt: skip
