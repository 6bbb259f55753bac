"""The console's files under /console/: as they lie in the package but for comments, cached by their ETag."""

import asyncio
import functools
import gzip
import hashlib
import re
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable

from aiohttp import web

from rebalancer.api.http.packing import takes_gzip

TYPES = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
PRELOADS = "<!-- preloads: every module, written by the server -->"
COMMENT = re.compile(r"^[ ]*(//.*|/\*\*.*\*/)$|^[ ]+", re.MULTILINE)  # whole lines: what stands behind code stays
HEADERS = {
    "Cache-Control": "no-cache",  # kept, but asked for each time: an answer of 304 has no body
    "Vary": "Accept-Encoding",
}


@dataclass(frozen=True, slots=True)
class Asset:
    """One file as it goes over the wire: plain and gzip, with the hash of its content.

    content_type: value of the header Content-Type.
    plain: the content as it is.
    gzipped: the content packed with gzip.
    etag: the first 32 hex digits of the content's SHA-256.
    """

    content_type: str
    plain: bytes
    gzipped: bytes
    etag: str

    @classmethod
    def of(cls, name: str, content: bytes) -> "Asset":
        """The asset of a file's content. mtime 0: the same bytes on every replica."""
        digest = hashlib.sha256(content).hexdigest()[:32]
        return cls(TYPES[name.rpartition(".")[2]], content, gzip.compress(content, 9, mtime=0), digest)


@functools.cache
def assets() -> dict[str, Asset]:
    """Every file by its path under `console/`. Reads the disk the first time."""
    contents = dict(_read(files("rebalancer.api").joinpath("console"), ""))
    modules = sorted(name for name in contents if name.endswith(".js"))
    preloads = "\n".join(f'<link rel="modulepreload" href="/console/assets/{name}">' for name in modules)
    page = contents["index.html"].decode().replace(PRELOADS, preloads).encode()
    return {name: Asset.of(name, _lean(name, content)) for name, content in {**contents, "index.html": page}.items()}


def _lean(name: str, content: bytes) -> bytes:
    """Scripts without comments and indents, an eighth of what goes over the wire; lines keep their numbers."""
    return COMMENT.sub("", content.decode()).encode() if name.endswith(".js") else content


def _read(folder: Traversable, under: str) -> list[tuple[str, bytes]]:
    contents: list[tuple[str, bytes]] = []
    for each in folder.iterdir():
        if each.is_dir():
            contents += _read(each, f"{under}{each.name}/")
        elif each.name.rpartition(".")[2] in TYPES:
            contents.append((under + each.name, each.read_bytes()))
    return contents


async def page(request: web.Request) -> web.Response:
    """The console: one page, whatever the address; its script reads the rest of it."""
    return _answer(request, (await _loaded())["index.html"])


async def asset(request: web.Request) -> web.Response:
    """One of the page's files."""
    file = (await _loaded()).get(request.match_info["name"])
    if file is None:
        raise web.HTTPNotFound(text="no such file\n", headers=HEADERS)
    return _answer(request, file)


async def _loaded() -> dict[str, Asset]:
    """In a thread: the first time it reads the disk."""
    return await asyncio.to_thread(assets)


async def entrance(_: web.Request) -> web.Response:
    """The server's root leads to the console."""
    return web.Response(status=302, headers={**HEADERS, "Location": "/console/"})


def _answer(request: web.Request, file: Asset) -> web.Response:
    headers = {**HEADERS, "ETag": f'"{file.etag}"'}
    if any(each.value in {file.etag, "*"} for each in request.if_none_match or ()):
        return web.Response(status=304, headers=headers)
    headers["Content-Type"] = file.content_type
    if takes_gzip(request):
        return web.Response(body=file.gzipped, headers={**headers, "Content-Encoding": "gzip"})
    return web.Response(body=file.plain, headers=headers)


def console_routes() -> list[web.RouteDef]:
    """None of them needs a login: what the pages show comes from /v1, which does."""
    return [
        web.get("/", entrance),
        web.get("/console", entrance),
        web.get("/console/assets/{name:.+}", asset),
        web.get("/console/{page:.*}", page),
    ]
