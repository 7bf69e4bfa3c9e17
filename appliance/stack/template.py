"""Jinja, strict and sandboxed: an unset name is an error, and a value cannot become structure."""

import json
from collections.abc import Mapping
from typing import Any

import yaml
from jinja2 import FileSystemLoader, StrictUndefined
from jinja2.sandbox import ImmutableSandboxedEnvironment

from appliance.core.paths import data
from appliance.machine.facts import Variable


def render_yaml(name: str, context: Mapping[str, Any]) -> str:
    """A YAML file from a template, read back to prove that each quoted value arrives as it was given.

    The one filter is `q`: a JSON string, which YAML reads alike, with `$` doubled so that compose leaves it be.
    """
    quoted: list[str] = []

    def q(value: str) -> str:
        text = json.dumps(str(value), ensure_ascii=False)  # str() is where an unset name complains
        quoted.append(value)
        return text if isinstance(value, Variable) else text.replace("$", "$$")

    environment = ImmutableSandboxedEnvironment(
        loader=FileSystemLoader(data("templates")),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,  # YAML, not HTML: quoting is the filter's work
    )
    environment.filters["q"] = q
    text = environment.get_template(name).render(context)
    missing = {_plain(value) for value in quoted} - set(_scalars(yaml.safe_load(text)))
    if missing:
        raise AssertionError(f"{name} does not give back {sorted(missing)}")
    return text


def _plain(value: str) -> str:
    return str(value) if isinstance(value, Variable) else value.replace("$", "$$")


def _scalars(tree: Any) -> list[str]:
    if isinstance(tree, Mapping):
        return [leaf for key, value in tree.items() for leaf in (*_scalars(key), *_scalars(value))]
    if isinstance(tree, list):
        return [leaf for value in tree for leaf in _scalars(value)]
    return [str(tree)]
