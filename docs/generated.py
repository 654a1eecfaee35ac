"""A hook of MkDocs: fills the pages of the HTTP and WebSocket interfaces from what the server says of itself."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from nearcast.server import schema


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Markers become what they stand for."""
    for marker, made in (("<!-- openapi -->", http), ("<!-- asyncapi -->", websocket)):
        if marker in markdown:
            markdown = markdown.replace(marker, "\n".join(made()))
    return markdown


def http() -> Iterator[str]:
    """Every operation, then every form."""
    told = schema.openapi()
    for path, operations in told["paths"].items():
        for verb, operation in operations.items():
            yield f"## {verb.upper()} {path}\n\n{operation['summary']} {operation.get('description', '')}\n"
            if operation.get("parameters"):
                yield "| parameter | in | required | |\n| --- | --- | --- | --- |"
                for each in operation["parameters"]:
                    needed = "yes" if each.get("required") else ""
                    yield f"| `{each['name']}` | {each['in']} | {needed} | {each.get('description', '')} |"
                yield ""
            body = operation.get("requestBody", {}).get("content", {})
            if body:
                yield f"Takes {_forms(body)}.\n"
            for status, answer in operation["responses"].items():
                if status != "default" and answer.get("content"):
                    yield f"Answers {status} with {_forms(answer['content'])}.\n"
    yield "## Forms\n"
    for name, form in told["components"]["schemas"].items():
        yield f"### {name}\n\n{form.get('description', '')}\n"
        if form.get("properties"):
            yield "| field | type | required |\n| --- | --- | --- |"
            for field, kind in form["properties"].items():
                yield f"| `{field}` | {_type(kind)} | {'yes' if field in form.get('required', ()) else ''} |"
            yield ""


def _forms(content: dict[str, Any]) -> str:
    """Media types, with the form of each if it has one."""
    told = []
    for media, each in content.items():
        name = each.get("schema", {}).get("$ref", "").rpartition("/")[2]
        told.append(f"`{media}`" + (f" ([{name}](#{name.lower()}))" if name else ""))
    return " or ".join(told)


def _type(kind: Any) -> str:
    """The type of a field in words; a form that allows anything is `True`, or empty."""
    if not isinstance(kind, dict):
        return "anything"
    if "$ref" in kind:
        name = kind["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in kind:
        return " or ".join(_type(each) for each in kind["anyOf"])
    if kind.get("type") == "array":
        return f"list of {_type(kind.get('items', {}))}"
    return str(kind.get("type", "anything"))


def websocket() -> Iterator[str]:
    """What a client says, then what the server says, each with an example."""
    told = schema.asyncapi()
    said: dict[str, list[str]] = {"receive": [], "send": []}
    for operation in told["operations"].values():
        said[operation["action"]] += [each["$ref"].rpartition("/")[2] for each in operation["messages"]]
    messages = {name: each for channel in told["channels"].values() for name, each in channel["messages"].items()}
    for action, title in (("receive", "What a client says"), ("send", "What the server says")):
        yield f"## {title}\n"
        for name in said[action]:
            yield f"### {name}\n"
            for example in messages[name].get("examples", ()):
                yield f"```json\n{json.dumps(example['payload'])}\n```\n"
