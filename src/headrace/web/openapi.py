"""The API description (OpenAPI 3.1), generated from the table of endpoints."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from headrace.web.auth import PROOF_HEADER

if TYPE_CHECKING:
    from headrace.web.routes import Endpoint

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


def openapi(version: str, endpoints: Iterable[Endpoint], cookie: str) -> dict[str, Any]:
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        path = re.sub(r"\{(\w+):path\}", r"{\1}", endpoint.path)
        names = re.findall(r"\{(\w+)\}", path)
        given = [
            {"name": n, "in": "path", "required": True, "schema": {"type": "string"}} for n in names
        ]
        given += [{"name": n, "in": "query", "schema": {"type": "string"}} for n in endpoint.query]
        operation: dict[str, Any] = {
            "summary": endpoint.summary,
            "parameters": given,
            "responses": {
                "200": {"description": "success", "content": {one: {} for one in endpoint.kinds}},
                "default": {
                    "description": "what, why, where, fix",
                    "content": {JSON: {"schema": {"$ref": "#/components/schemas/Error"}}},
                },
            },
            "x-access": endpoint.access,
        }
        if endpoint.body:
            properties = {name: {"type": ["string", "integer"]} for name in endpoint.body}
            schema = {"type": "object", "properties": properties}
            operation["requestBody"] = {"content": {JSON: {"schema": schema}}}
        paths.setdefault(path, {})[endpoint.method.lower()] = operation
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
