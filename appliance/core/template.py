"""Jinja, strict and sandboxed: an unset name is an error, and a value cannot become structure."""

import json
from collections.abc import Mapping
from typing import Any

import yaml

from appliance.core.paths import data


class Variable(str):
    """Text for compose to interpolate: it must not be quoted away."""


def render_yaml(name: str, context: Mapping[str, Any]) -> str:
    """A YAML file from a template, read back to prove that each quoted value arrives as it was given.

    The filters: `q`, a JSON string, which YAML reads alike, with `$` doubled so that compose leaves it be; and
    `yaml`, a mapping as a block, for files that nothing interpolates.
    """
    from jinja2 import FileSystemLoader, StrictUndefined
    from jinja2.sandbox import ImmutableSandboxedEnvironment

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
    environment.filters |= {"q": q, "yaml": _block}
    text = environment.get_template(name).render(context)
    missing = {_plain(value) for value in quoted} - set(_scalars(yaml.safe_load(text)))
    if missing:
        raise AssertionError(f"{name} does not give back {sorted(missing)}")
    return text


def _block(tree: Mapping[str, Any]) -> str:
    return yaml.safe_dump(dict(tree), sort_keys=False, allow_unicode=True, width=1000)


def _plain(value: str) -> str:
    return str(value) if isinstance(value, Variable) else value.replace("$", "$$")


def _scalars(tree: Any) -> list[str]:
    if isinstance(tree, Mapping):
        return [leaf for key, value in tree.items() for leaf in (*_scalars(key), *_scalars(value))]
    if isinstance(tree, list):
        return [leaf for value in tree for leaf in _scalars(value)]
    return [str(tree)]
