"""The API's description (OpenAPI 3.1), made from the doors themselves: it cannot differ."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from headrace.web.gate import PROOF_HEADER

if TYPE_CHECKING:
    from headrace.web.doors import Door

JSON = "application/json"
ERROR = {
    "type": "object",
    "properties": {
        "error": {
            "type": "object",
            "properties": {
                name: {"type": ["string", "null"]}
                for name in ("slug", "what", "why", "where", "fix")
            },
            "required": ["slug", "what"],
        }
    },
    "required": ["error"],
}


def openapi(version: str, doors: Iterable[Door], cookie: str) -> dict[str, Any]:
    paths: dict[str, dict[str, Any]] = {}
    for door in doors:
        path = re.sub(r"\{(\w+):path\}", r"{\1}", door.path)
        names = re.findall(r"\{(\w+)\}", path)
        given = [
            {"name": n, "in": "path", "required": True, "schema": {"type": "string"}} for n in names
        ]
        given += [{"name": n, "in": "query", "schema": {"type": "string"}} for n in door.query]
        operation: dict[str, Any] = {
            "summary": door.summary,
            "parameters": given,
            "responses": {
                "200": {"description": "as it says", "content": {one: {} for one in door.kinds}},
                "default": {
                    "description": "what, why, where, fix",
                    "content": {
                        "application/json": {"schema": {"$ref": "#/components/schemas/Error"}}
                    },
                },
            },
            "x-access": door.access,
        }
        if door.body:
            properties = {name: {"type": ["string", "integer"]} for name in door.body}
            schema = {"type": "object", "properties": properties}
            operation["requestBody"] = {"content": {"application/json": {"schema": schema}}}
        paths.setdefault(path, {})[door.method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {"title": "Headrace", "version": version},
        "paths": paths,
        "components": {
            "schemas": {"Error": ERROR},
            "securitySchemes": {
                "session": {"type": "apiKey", "in": "cookie", "name": cookie},
                "proof": {"type": "apiKey", "in": "header", "name": PROOF_HEADER},
                "program": {"type": "http", "scheme": "bearer"},
            },
        },
        "security": [{"session": [], "proof": []}, {"program": []}],
    }
